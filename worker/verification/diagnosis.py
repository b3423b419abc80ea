"""Ask again what an arm answered differently: fresh servers, one request at a time, and the target's own choices."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from app.domain.greedy import Answer, Prompt, answer_of, forks
from app.domain.greedy_cases import left_out_name
from app.domain.trace_request import TraceRequest
from app.domain.verified import VerificationMode, VerificationRecord
from worker.prompts import ReplayTrace
from worker.verification.asking import Asker, Prompts, greedily
from worker.verification.choosing import alone
from worker.verification.forcing import forced_choices
from worker.verification.phase import merged

PROMPTS_MAX: Final = 16
"""Of an arm in a block; an arm that is wrong everywhere is wrong in these."""
SINGLES: Final = 3
_LEFT_OUT: Final = f"left out: a block asks at most {PROMPTS_MAX} prompts of an arm again"

Answers = Mapping[Prompt, Collection[Answer]]


class Asked(NamedTuple):
    """The prompts of one arm that are asked again, and those beyond the cap."""

    prompts: tuple[Prompt, ...]
    left_out: dict[str, str]


def choose_again(differing: Iterable[Prompt], seed: str) -> Asked:
    """At most ``PROMPTS_MAX`` of the differing prompts, chosen by a seed."""
    every = sorted(set(differing))
    chosen = sorted(random.Random(seed).sample(every, min(PROMPTS_MAX, len(every))))
    return Asked(tuple(chosen), {left_out_name(p): _LEFT_OUT for p in every if p not in chosen})


def requests_of(traces: Mapping[str, ReplayTrace], prompts: Collection[Prompt]) -> Prompts:
    """The requests of these prompts, each by itself."""
    found: dict[str, tuple[TraceRequest, ...]] = {}
    for workload in dict.fromkeys(p.workload for p in prompts):
        trace, wanted = traces[workload], {p.request_id for p in prompts if p.workload == workload}
        every = (request for load in trace.header.loads for request in trace.of_load(load.name))
        found[workload] = tuple(alone(request) for request in every if request.request_id in wanted)
    return found


async def answer_again(asker: Asker, prompts: Prompts) -> VerificationRecord:
    """Each prompt ``SINGLES`` times alone, and once with others. Raises ``ReplayFailed``."""
    greedy = greedily(prompts)
    single = await asker.ask(greedy, VerificationMode.SINGLE, repeats=SINGLES)
    concurrent = await asker.ask(greedy, VerificationMode.CONCURRENT)
    return VerificationRecord(answers=(*single, *concurrent))


async def answer_and_choose(
    asker: Asker, prompts: Prompts, arms: Answers, target: Answers, *, raw_logits: bool
) -> VerificationRecord:
    """Target-only's part: the same, and its choices wherever an answer of ``arms`` or of its own parts from its own.

    ``target``: what target-only had answered before, in this block. ``raw_logits``: whether this server tells logits.
    """
    again = await answer_again(asker, prompts)
    own = answers_of([again])
    wanted = {
        prompt: forks({*arms.get(prompt, ()), *mine}, mine)
        for prompt in own
        for mine in [{*target.get(prompt, ()), *own[prompt]}]
    }
    choices = await forced_choices(asker, prompts, wanted)
    return merged(again, choices.model_copy(update={"raw_logits": raw_logits}))


async def diagnose(
    target: Asker, arm: Asker, prompts: Prompts, arms: Answers, targets: Answers, *, raw_logits: bool
) -> tuple[VerificationRecord, VerificationRecord]:
    """Both parts, of two servers that are up at once: target-only's record, then the arm's."""
    ours = await answer_again(arm, prompts)
    again = answers_of([ours])
    heard = {prompt: {*arms.get(prompt, ()), *again.get(prompt, ())} for prompt in {**arms, **again}}
    return await answer_and_choose(target, prompts, heard, targets, raw_logits=raw_logits), ours


def answers_of(records: Sequence[VerificationRecord]) -> dict[Prompt, set[Answer]]:
    """Every greedy answer in these records."""
    found: dict[Prompt, set[Answer]] = {}
    for given in (given for record in records for given in record.answers):
        answer = answer_of(given)
        if answer is not None and given.mode in {VerificationMode.SINGLE, VerificationMode.CONCURRENT}:
            found.setdefault(Prompt(given.workload, given.request_id), set()).add(answer)
    return found
