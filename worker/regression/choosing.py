"""Parameters that change which token is chosen: each holds at every position of a draft, or is refused by name."""

from collections.abc import Sequence

from worker.regression.answers import Answer, Choice
from worker.regression.bench import Bench, Body, greedy, holds, holds_tokens, needs, same
from worker.regression.case import Case
from worker.regression.verdicts import Broken, EngineRefused

TOKENS = 24
HOT = 2.0
"""So hot that a parameter which should leave one token only is seen to be ignored."""
PENALISED = 2
COLD, COLD_TOKENS, CLEAR_GAP, CLEAR_MIN = 0.01, 12, 0.2, 2
"""At this temperature a token that is less likely by the gap (in nats) is drawn once in 10^8."""
SEEDS = (1, 2, 3, 4)
SAMPLED_ON_CPU = ("vllm-project/vllm#55005",)
MIN_P_ISSUE = ("vllm-project/vllm#42744",)


async def greedy_equality(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, *bench.prompts.ending[:4], *bench.prompts.open_ended[:4]):
        try:
            await bench.both(greedy(prompt, TOKENS, ignore_eos=True), is_control=True)
        except EngineRefused as refused:
            raise Broken("a plain greedy request", expected="an answer", found=refused) from refused


async def presence_penalty(bench: Bench) -> None:
    await _penalised(bench, presence_penalty=1.5)


async def frequency_penalty(bench: Bench) -> None:
    await _penalised(bench, frequency_penalty=1.2)


async def repetition_penalty(bench: Bench) -> None:
    await _penalised(bench, repetition_penalty=1.4)


async def _penalised(bench: Bench, **penalty: float) -> None:
    """Equal to target-only's penalised answer, where the penalty changes anything at all."""
    changed = 0
    for prompt in bench.prompts.open_ended[:PENALISED]:
        plain = await bench.reference(greedy(prompt, TOKENS, ignore_eos=True))
        expected, _ = await bench.both(greedy(prompt, TOKENS, ignore_eos=True, **penalty))
        changed += plain.only.token_ids != expected.only.token_ids
    needs(changed, "the penalty changes none of target-only's answers")
    bench.note(f"the penalty changes {changed} of {PENALISED} answers")


async def bad_words(bench: Bench) -> None:
    prompt = bench.prompts.open_ended[0]
    plain = (await bench.reference(greedy(prompt, TOKENS, ignore_eos=True))).only
    words = [word for word in plain.text.split() if word.isalpha()]
    needs(words, "target-only's answer has no word to forbid")
    forbidden = max(words, key=len)
    expected, _ = await bench.both(greedy(prompt, TOKENS, ignore_eos=True, bad_words=[forbidden]))
    needs(expected.only.token_ids != plain.token_ids, f"forbidding {forbidden!r} changes nothing")


async def allowed_tokens(bench: Bench) -> None:
    prompt = bench.prompts.open_ended[0]
    allowed = sorted(set(prompt[:12]))
    _, found = await bench.both(greedy(prompt, TOKENS, ignore_eos=True, allowed_token_ids=allowed))
    if not set(found.only.token_ids) <= set(allowed):
        raise Broken("allowed_token_ids", expected=f"only {allowed}", found=found)


async def min_p(bench: Bench) -> None:
    """With min_p 1 only the likeliest token is left, however hot: the answer is the greedy one, or there is none."""
    await _greedy_although_hot(bench, min_p=1.0)


async def top_k(bench: Bench) -> None:
    await _greedy_although_hot(bench, top_k=1)


async def top_p(bench: Bench) -> None:
    await _greedy_although_hot(bench, top_p=1e-6)


async def temperature(bench: Bench) -> None:
    """So cold that only the likeliest token is left, as far as target-only's is likelier by far than the next."""
    compared = 0
    for prompt in (*bench.prompts.ending, *bench.prompts.open_ended):
        told = (await bench.reference(greedy(prompt, COLD_TOKENS, ignore_eos=True, logprobs=2))).only
        clear = _clear_tokens(told)
        if clear < CLEAR_MIN:
            continue
        compared += clear
        cold = {"temperature": COLD, "seed": 7}
        found = (await bench.ask(greedy(prompt, COLD_TOKENS, ignore_eos=True) | cold)).only
        holds_tokens(found.token_ids[:clear], told.token_ids[:clear])
    needs(compared, "target-only is sure of too few tokens")
    bench.note(f"{compared} tokens compared")


def _clear_tokens(choice: Choice) -> int:
    """How many tokens come before the first whose runner-up is near."""
    for position, top in enumerate(choice.top):
        ranked = sorted(top.values(), reverse=True)
        if len(ranked) > 1 and ranked[0] - ranked[1] < CLEAR_GAP:
            return position
    return len(choice.token_ids)


async def _greedy_although_hot(bench: Bench, **limit: float) -> None:
    for prompt in bench.prompts.open_ended[:2]:
        wanted = (await bench.reference(greedy(prompt, TOKENS, ignore_eos=True))).only
        try:
            found = await bench.ask(_hot(prompt, seed=7, temperature=HOT, **limit))
        except EngineRefused as refused:
            bench.note(f"refused by name: {_by_name(refused, next(iter(limit)))}")
            return
        holds_tokens(found.only.token_ids, wanted.token_ids)


async def logit_bias(bench: Bench) -> None:
    """Forbids the token that greedy decoding takes first."""
    prompt = bench.prompts.open_ended[0]
    plain = (await bench.reference(greedy(prompt, TOKENS, ignore_eos=True))).only
    body = greedy(prompt, TOKENS, ignore_eos=True, logit_bias={str(plain.token_ids[0]): -100})
    expected = await bench.reference(body)
    try:
        found = await bench.ask(body)
    except EngineRefused as refused:
        bench.note(f"refused by name: {_by_name(refused, 'logit_bias')}")
        return
    same(found, expected)
    if plain.token_ids[0] in found.only.token_ids:
        raise Broken("logit_bias", expected=f"no token {plain.token_ids[0]}", found=found)


def _by_name(refused: EngineRefused, parameter: str) -> str:
    if parameter not in str(refused):
        raise Broken("the refusal", expected=f"an error that names {parameter}", found=refused)
    return str(refused)


async def seeds(bench: Bench) -> None:
    """The same seed twice is the same answer; of four seeds not all are."""
    prompt = bench.prompts.open_ended[0]
    answers = [await _drawn(bench, prompt, seed) for seed in SEEDS]
    for seed, answer in zip(SEEDS[:2], answers, strict=False):
        holds_tokens((await _drawn(bench, prompt, seed)).token_ids, answer.token_ids)
    if len({tuple(answer.token_ids) for answer in answers}) == 1:
        raise Broken("seeds", expected="answers that differ between four seeds", found=answers[0])


async def _drawn(bench: Bench, prompt: Sequence[int], seed: int) -> Choice:
    return (await bench.ask(_hot(prompt, seed=seed, temperature=1.0))).only


async def n_choices(bench: Bench) -> None:
    """Choices with one token to choose from (top_k 1: an engine may refuse several greedy ones) are all the greedy."""
    prompt = bench.prompts.open_ended[1]
    single = (await bench.reference(greedy(prompt, TOKENS, ignore_eos=True))).only
    body = _hot(prompt, seed=3, temperature=1.0, top_k=1) | {"n": 3}
    for answer in (await bench.ask(body), await bench.stream(body)):
        holds("the choices", sorted(answer.choices), [0, 1, 2])
        for choice in answer.choices.values():
            holds_tokens(choice.token_ids, single.token_ids)


async def n_drawn(bench: Bench) -> None:
    """Sampled choices of one request are drawn apart from each other."""
    body = _hot(bench.prompts.open_ended[1], seed=11, temperature=1.0) | {"n": 3}
    answer: Answer = await bench.ask(body)
    holds("the choices", sorted(answer.choices), [0, 1, 2])
    drawn = {tuple(choice.token_ids) for choice in answer.choices.values()}
    if len(drawn) == 1:
        raise Broken("n sampled choices", expected="choices that differ", found=answer)


def _hot(prompt: Sequence[int], *, seed: int, temperature: float, **more: float) -> Body:
    return greedy(prompt, TOKENS, ignore_eos=True) | {"seed": seed, "temperature": temperature, **more}


CASES = (
    Case("greedy-equality", "the output guarantee itself: greedy tokens are target-only's", greedy_equality,
         ("vllm-project/vllm#41758", "vllm-project/vllm#47087", "vllm-project/vllm#36872", "vllm-project/vllm#35800")),
    Case("presence-penalty", "a penalty counts the tokens before each position, drafted ones too", presence_penalty),
    Case("frequency-penalty", "a penalty counts how often, drafted tokens too", frequency_penalty),
    Case("repetition-penalty", "this one counts the prompt as well", repetition_penalty),
    Case("bad-words", "a forbidden word may begin in the answer and end in the draft", bad_words),
    Case("allowed-token-ids", "a mask holds at every position of a draft", allowed_tokens),
    Case("min-p", "the rejection sampler knows no min_p: it must be refused or honoured, never ignored", min_p,
         MIN_P_ISSUE),
    Case("logit-bias", "neither does it know logit_bias", logit_bias, MIN_P_ISSUE),
    Case("temperature", "each position of a draft is sampled at the request's own temperature", temperature,
         SAMPLED_ON_CPU),
    Case("top-k", "top_k 1 leaves one token, however hot", top_k, SAMPLED_ON_CPU),
    Case("top-p", "so does the smallest top_p", top_p, SAMPLED_ON_CPU),
    Case("seeds", "a seeded request is its own generator; drafts must not use it up differently each time", seeds,
         SAMPLED_ON_CPU),
    Case("n-choices", "choices share a prompt; each has a draft of its own", n_choices),
    Case("n-drawn", "and each its own generator", n_drawn),
)  # fmt: skip
