"""Log-probabilities: the same tokens, as many values as tokens, and the values that target-only gives."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from worker.regression.answers import Choice, Top
from worker.regression.bench import CHAT, Bench, greedy, holds, needs
from worker.regression.case import Case
from worker.regression.verdicts import Broken

TOKENS = 24
TOP = 3
ISSUES = ("vllm-project/vllm#34497", "vllm-project/vllm#44727")


async def logprobs(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, *bench.prompts.open_ended[:2], *bench.prompts.ending[:2]):
        expected, found = await bench.both(greedy(prompt, TOKENS, logprobs=1))
        holds("the number of logprobs", len(found.only.logprobs), len(found.only.token_ids))
        _near(bench, found.only.logprobs, expected.only.logprobs)


async def top_logprobs(bench: Bench) -> None:
    for prompt in (bench.prompts.repeating, bench.prompts.open_ended[0]):
        expected, found = await bench.both(greedy(prompt, TOKENS, logprobs=TOP))
        _tops_near(bench, found.only, expected.only)


async def chat_logprobs(bench: Bench) -> None:
    body = {"messages": [{"role": "user", "content": "Say a, b, a, b, a, b."}], "max_tokens": TOKENS, "temperature": 0,
            "logprobs": True, "top_logprobs": TOP}  # fmt: skip
    expected, found = await bench.both(body, CHAT)
    holds("the number of logprobs", len(found.only.logprobs), len(found.only.token_ids))
    _near(bench, found.only.logprobs, expected.only.logprobs)
    _tops_near(bench, found.only, expected.only)


async def prompt_logprobs(bench: Bench) -> None:
    prompt = bench.prompts.open_ended[0]
    expected, found = await bench.both(greedy(prompt, 4, prompt_logprobs=1, ignore_eos=True))
    wanted, given = _of_prompt(expected.only, prompt), _of_prompt(found.only, prompt)
    holds("the number of prompt logprobs", len(given), len(prompt) - 1)
    _near(bench, given, wanted)


async def logprobs_streamed(bench: Bench) -> None:
    body = greedy(bench.prompts.open_ended[0], TOKENS, logprobs=1)
    expected = (await bench.reference(body)).only
    found = (await bench.stream(body)).only
    holds("the number of streamed logprobs", len(found.logprobs), len(expected.token_ids))
    _near(bench, found.logprobs, expected.logprobs)


def _near(bench: Bench, found: Sequence[float], expected: Sequence[float]) -> None:
    holds("the number of logprobs beside target-only's", len(found), len(expected))
    for position, (one, other) in enumerate(zip(found, expected, strict=True)):
        if not abs(one - other) <= bench.tolerance:
            raise Broken(f"the logprob at position {position}", expected=f"{other} ± {bench.tolerance}", found=one)


def _tops_near(bench: Bench, found: Choice, expected: Choice) -> None:
    """The values by rank: which of two equal tokens is named is not asked."""
    holds("the number of top logprobs", len(found.top), len(found.token_ids))
    needs(expected.top, "target-only gives no top logprobs")
    for one, other in zip(found.top, expected.top, strict=True):
        _near(bench, _ranked(one), _ranked(other))


def _ranked(top: Top) -> list[float]:
    ranked = sorted(top.values(), reverse=True)
    if any(first < second for first, second in pairwise(ranked)):
        raise Broken("top logprobs", expected="numbers", found=top)
    return ranked[:TOP]


def _of_prompt(choice: Choice, prompt: Sequence[int]) -> list[float]:
    """The logprob of each token of the prompt but the first."""
    told: Sequence[Mapping[str, Any] | None] = choice.prompt_logprobs or ()
    return [
        float(alternatives[str(token)]["logprob"])
        for token, alternatives in zip(prompt, told, strict=False)
        if alternatives is not None and str(token) in alternatives
    ]


CASES = (
    Case("logprobs", "verification samples several positions at once; each token keeps the logprob of its own position",
         logprobs, ISSUES),
    Case("top-logprobs", "the alternatives of a position belong to it, also where a draft was rejected", top_logprobs,
         ISSUES),
    Case("chat-logprobs", "the chat route writes them in another form", chat_logprobs, ISSUES),
    Case("prompt-logprobs", "those of the prompt come from prefill, beside drafts of other requests", prompt_logprobs),
    Case("logprobs-streamed", "a chunk of several tokens brings several values", logprobs_streamed, ISSUES),
)  # fmt: skip
