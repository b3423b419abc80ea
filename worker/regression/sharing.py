"""What requests share: a batch, a cache, a window, the counters. None of it may show in an answer."""

import asyncio
from collections.abc import Sequence

from app.domain.exposition import (
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    Exposition,
)
from worker.regression.answers import Answer
from worker.regression.bench import Bench, Body, greedy, holds, holds_tokens, needs, same
from worker.regression.case import Case
from worker.regression.verdicts import Broken, NotApplicable

TOKENS = 24
ENDING_TOKENS = 64
CROWD = 8
LONG_TOKENS, LONG_PROMPT = 40, 112
"""So many requests of this length fill the cache that the suite gives its own models."""
CACHED_PROMPT = 384
"""Three blocks, of which some methods leave two out."""


async def batch_equals_serial(bench: Bench) -> None:
    """Greedy answers to eight prompts at once are those to one after the other."""
    prompts = (bench.prompts.repeating, *bench.prompts.ending[:4], *bench.prompts.open_ended[:3])
    bodies = [greedy(prompt, TOKENS, ignore_eos=True) for prompt in prompts]
    expected = [await bench.reference(body) for body in bodies]
    _all_same(bench, bodies, await _at_once(bench, bodies), expected)


async def mixed_batch(bench: Bench) -> None:
    """Greedy answers beside sampled, penalised, constrained and ending ones."""
    plain = [greedy(prompt, TOKENS) for prompt in (*bench.prompts.ending[:3], *bench.prompts.open_ended[:1])]
    prompt = bench.prompts.open_ended[1]
    beside = [
        greedy(prompt, TOKENS) | {"temperature": 1.0, "seed": 5},
        greedy(prompt, TOKENS, presence_penalty=1.0),
        greedy(prompt, TOKENS, structured_outputs={"regex": "[a-d]{12}"}),
        greedy(prompt, 3),
    ]
    expected = [await bench.reference(body) for body in plain]
    found = await _at_once(bench, [body for pair in zip(plain, beside, strict=True) for body in pair])
    _all_same(bench, plain, found[::2], expected)


async def preemption(bench: Bench) -> None:
    """More than the cache holds: requests are preempted and computed again, and their answers stay."""
    bodies = [
        greedy(bench.prompts.varied(number, LONG_PROMPT), LONG_TOKENS, ignore_eos=True) for number in range(CROWD)
    ]
    expected = [await bench.reference(body) for body in bodies]
    before = (await bench.metrics()).value(PREEMPTIONS)
    found = await _at_once(bench, bodies)
    preempted = (await bench.metrics()).value(PREEMPTIONS) - before
    _all_same(bench, bodies, found, expected)
    needs(preempted, "its cache holds all of it: nothing was preempted")
    bench.note(f"{preempted:g} preemptions")


async def _at_once(bench: Bench, bodies: Sequence[Body]) -> list[Answer]:
    return list(await asyncio.gather(*(bench.ask(body) for body in bodies)))


def _all_same(bench: Bench, bodies: Sequence[Body], found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    for body, one, other in zip(bodies, found, expected, strict=True):
        bench.point_at(body, one)
        same(one, other)


async def prefix_cache(bench: Bench) -> None:
    """The same prompt twice under one salt: the second time it comes from the cache, and says the same."""
    body = greedy(bench.prompts.of_length(min(CACHED_PROMPT, bench.max_model_len * 3 // 4)), TOKENS, ignore_eos=True)
    expected = await bench.reference(body)
    salted = {**body, "cache_salt": "the same for both"}
    first, second = await bench.ask(salted), await bench.ask(salted)
    same(first, expected)
    same(second, expected)
    needs(second.cached_tokens, "the prefix cache is off, or gave nothing")
    bench.note(f"{second.cached_tokens} tokens from the cache")


async def shared_prefix(bench: Bench) -> None:
    """Prompts that share a beginning share its blocks, and no answer shows it."""
    start = bench.prompts.of_length(min(CACHED_PROMPT, bench.max_model_len * 3 // 4))
    cached = 0
    for prompt in bench.prompts.open_ended[:3]:
        body = greedy((*start, *prompt[:40]), 24, ignore_eos=True)
        expected = await bench.reference(body)
        found = await bench.ask({**body, "cache_salt": "shared"})
        same(found, expected)
        cached += found.cached_tokens
    needs(cached, "the prefix cache is off, or gave nothing")
    bench.note(f"{cached} tokens from the cache")


async def long_context(bench: Bench) -> None:
    """From the middle of the context nearly to its end: beyond what the suite lets its own drafts see."""
    prompt = bench.prompts.of_length(bench.max_model_len // 2 - 40)
    await bench.both(greedy(prompt, min(bench.max_model_len // 6, 256), ignore_eos=True))


async def full_context(bench: Bench) -> None:
    """Room for one token, and for two and three: the answer ends where the context does."""
    for room in (1, 2, 3):
        prompt = bench.prompts.of_length(bench.max_model_len - room)
        _, found = await bench.both(greedy(prompt, room, ignore_eos=True))
        holds("the tokens that fit", len(found.only.token_ids), room)


async def counters(bench: Bench) -> None:
    """Requests that end by themselves: the engine counts the tokens that it gave out, and accepts no more."""
    before = await bench.metrics()
    answers = [await bench.ask(greedy(prompt, ENDING_TOKENS)) for prompt in bench.prompts.ending]
    after = await bench.metrics()
    given = sum(len(answer.only.token_ids) for answer in answers)
    holds("generation tokens counted", _moved(before, after, GENERATION_TOKENS), given)
    if not after.has(DRAFTS):
        return
    drafts, accepted = _moved(before, after, DRAFTS), _moved(before, after, ACCEPTED_TOKENS)
    room = given - len(answers) - drafts
    if accepted > room:
        told = f"at most {room:g}: {given} tokens less {len(answers)} of prefill and one of each of {drafts:g} drafts"
        raise Broken("accepted tokens counted", expected=told, found=f"{accepted:g}: some were never given out")


async def drafts(bench: Bench) -> None:
    """The suite is worth something only where drafts are both accepted and rejected."""
    before = await bench.metrics()
    for prompt in (bench.prompts.repeating, *bench.prompts.open_ended[:3]):
        await bench.ask(greedy(prompt, TOKENS, ignore_eos=True))
    after = await bench.metrics()
    if bench.is_reference:
        holds("speculative counters of target-only", after.has(DRAFT_TOKENS), expected=False)
        return
    drafted, accepted = _moved(before, after, DRAFT_TOKENS), _moved(before, after, ACCEPTED_TOKENS)
    if not drafted:
        raise Broken("drafts", expected="some", found="none")
    if accepted in {0, drafted}:
        raise NotApplicable(f"drafted {drafted:g}, accepted {accepted:g}: its verification is not put to the test")
    bench.note(f"drafted {drafted:g}, accepted {accepted:g}")


def _moved(before: Exposition, after: Exposition, name: str) -> float:
    return after.value(name) - before.value(name)


async def two_vocabularies(bench: Bench) -> None:
    """A draft with more tokens than the target, which the engine refuses at start-up or maps without a trace."""
    for prompt in (*bench.prompts.ending[:3], *bench.prompts.open_ended[:3]):
        body = greedy(prompt, TOKENS)
        holds_tokens((await bench.ask(body)).only.token_ids, (await bench.reference(body)).only.token_ids)


CASES = (
    Case("batch-equals-serial", "with fp32 a batch changes nothing, although drafts of all lengths share its steps",
         batch_equals_serial),
    Case("mixed-batch", "each request keeps its own parameters, mask and draft in a shared step", mixed_batch,
         ("vllm-project/vllm#46899", "vllm-project/vllm#55005")),
    Case("preemption", "a preempted request forgets its drafts and nothing else", preemption,
         ("vllm-project/vllm#49620", "vllm-project/vllm#41190")),
    Case("prefix-cache", "a cached prompt is read from blocks that no rejected draft has touched", prefix_cache),
    Case("shared-prefix", "the same between requests", shared_prefix),
    Case("long-context", "beyond the draft's own limit the target goes on alone", long_context),
    Case("full-context", "at the end of the context there is no room for a draft", full_context),
    Case("counters", "what the counters say of answers that end inside a draft", counters,
         ("vllm-project/vllm#56101",)),
    Case("drafts", "drafts are made, some accepted and some rejected; target-only makes none", drafts),
)  # fmt: skip
VOCABULARIES = (
    Case("wider-vocabulary", "a draft with other tokens is refused, or its answers are target-only's",
         two_vocabularies, launch="draft_model, more tokens than the target"),
    Case("two-vocabularies", "and so is one that is asked for with use_heterogeneous_vocab",
         two_vocabularies, launch="draft_model, two vocabularies"),
)  # fmt: skip
