"""Correctness before speed: an arm's greedy answers against target-only's, request by request in each block.

The control is target-only against itself in the other blocks, each a fresh process. A mismatch is
*explained* only where target-only itself gave several answers to the request over the blocks and the
arm's answer is one of them; a further answer stays unexplained, since the control does not show it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence
from app.domain.observation import RequestObservation
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.statistics import Estimate, proportion
from app.domain.vocabulary import BASELINE_ARM, Outcome

MISMATCHES_LISTED = 200
TOKENS_AROUND = 8
EXPLAINED = "baseline also differs from itself, and gave this answer in another block"
SAMPLED = "outputs were sampled (temperature above 0), so equal tokens are not expected and were not compared"


class Mismatch(BaseModel):
    """One request whose greedy tokens differ from target-only's in the same block."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    arm: str
    workload: str
    load: str
    request_id: str
    first_divergence: int
    """Index of the first token that differs; the token lists show its surroundings."""
    baseline_tokens: tuple[int, ...]
    arm_tokens: tuple[int, ...]
    baseline_text: str
    arm_text: str
    baseline_finish: str | None
    arm_finish: str | None
    explanation: str | None
    """``baseline also differs from itself`` where the control explains it; ``None`` is unexplained."""


class Correctness(BaseModel):
    """Greedy equality of one arm with target-only, and of target-only with itself across blocks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    compared: int
    mismatched: int
    unexplained: int
    match_rate: Estimate
    control_compared: int
    control_mismatched: int
    reference_exact: Estimate
    """Share of requests with a reference whose text equals it: is the model doing the task at all?"""
    baseline_reference_exact: Estimate


class Verification(NamedTuple):
    """One ``Correctness`` per candidate arm, and every mismatch, unexplained ones first."""

    correctness: tuple[Correctness, ...]
    mismatches: tuple[Mismatch, ...]


class Answer(NamedTuple):
    """What equality is asked of; the length is that of the tokens."""

    token_ids: tuple[int, ...]
    finish_reason: str | None


Answers = dict[tuple[str, str, str], list[Answer]]
"""(workload, load, request id) → target-only's answer in each block that served it."""


def verify(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Verification:
    """Compare every candidate with target-only over the complete blocks. Sampled outputs are not compared."""
    greedy = evidence.manifest.sampling.temperature == 0
    control = _control_answers(evidence, blocks) if greedy else {}
    correctness: list[Correctness] = []
    listed: list[Mismatch] = []
    for arm in evidence.manifest.candidates:
        compared, mismatches = 0, list[Mismatch]()
        conditions = _conditions(evidence, arm.name) if greedy else ()
        for pair in chain.from_iterable(map(blocks.pairs, conditions)):
            for target, ours in _served_by_both(pair):
                compared += 1
                if answer(target) != answer(ours):
                    mismatches.append(_mismatch(pair, target, ours, control))
        listed += mismatches
        correctness.append(
            _correctness(evidence, blocks, arm.name, compared=compared, mismatches=mismatches, control=control)
        )
    return Verification(tuple(correctness), tuple(sorted(listed, key=lambda m: m.explanation is not None)))


def answer(observation: RequestObservation) -> Answer:
    """The part of an observation that must be equal under greedy decoding."""
    return Answer(observation.token_ids, observation.finish_reason)


def _correctness(
    evidence: ExperimentEvidence,
    blocks: CompleteBlocks,
    arm: str,
    *,
    compared: int,
    mismatches: list[Mismatch],
    control: Answers,
) -> Correctness:
    greedy = evidence.manifest.sampling.temperature == 0
    nothing = "no request was served by both arms in a complete block" if greedy else SAMPLED
    return Correctness(
        arm=arm,
        compared=compared,
        mismatched=len(mismatches),
        unexplained=sum(m.explanation is None for m in mismatches),
        match_rate=proportion(compared - len(mismatches), compared, "share", nothing),
        control_compared=sum(len(given) - 1 for given in control.values()),
        control_mismatched=sum(later != given[0] for given in control.values() for later in given[1:]),
        reference_exact=_reference_exact(evidence, blocks, arm),
        baseline_reference_exact=_reference_exact(evidence, blocks, BASELINE_ARM),
    )


def _served_by_both(pair: Pair) -> Iterator[tuple[RequestObservation, RequestObservation]]:
    theirs = {o.request_id: o for o in pair.target.observations if o.outcome is Outcome.SUCCESS}
    for ours in pair.arm.observations:
        if ours.outcome is Outcome.SUCCESS and (target := theirs.get(ours.request_id)) is not None:
            yield target, ours


def _mismatch(pair: Pair, target: RequestObservation, ours: RequestObservation, control: Answers) -> Mismatch:
    both = zip(target.token_ids, ours.token_ids, strict=False)
    first = sum(1 for _ in takewhile(lambda tokens: tokens[0] == tokens[1], both))
    shown = slice(max(first - TOKENS_AROUND, 0), first + TOKENS_AROUND)
    known = set(control.get((pair.arm.workload, pair.arm.load, ours.request_id), ()))
    return Mismatch(
        block=pair.block,
        arm=pair.arm.arm,
        workload=pair.arm.workload,
        load=pair.arm.load,
        request_id=ours.request_id,
        first_divergence=first,
        baseline_tokens=target.token_ids[shown],
        arm_tokens=ours.token_ids[shown],
        baseline_text=target.text,
        arm_text=ours.text,
        baseline_finish=target.finish_reason,
        arm_finish=ours.finish_reason,
        explanation=EXPLAINED if len(known) > 1 and answer(ours) in known else None,
    )


def _control_answers(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Answers:
    given: Answers = defaultdict(list)
    same: dict[Answer, Answer] = {}
    for condition in _conditions(evidence, BASELINE_ARM):
        for run in blocks.of(condition):
            for o in run.observations:
                if o.outcome is Outcome.SUCCESS:
                    given[condition.workload, condition.load, o.request_id].append(
                        same.setdefault(answer(o), answer(o))  # blocks mostly agree: each answer is held once
                    )
    return dict(given)


def _reference_exact(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> Estimate:
    """Over distinct requests: each counts once, by its first served block, since repeats of a prompt are not new."""
    exact: dict[tuple[str, str, str], bool] = {}
    for condition in _conditions(evidence, arm):
        references = {r.request_id: r.reference for r in evidence.labels.get(condition.workload, ())}
        for run in blocks.of(condition):
            for o in run.observations:
                wanted = references.get(o.request_id)
                if wanted is not None and o.outcome is Outcome.SUCCESS:
                    key = (condition.workload, condition.load, o.request_id)
                    exact.setdefault(key, o.text.strip() == wanted.strip())
    return proportion(sum(exact.values()), len(exact), "share", "no served request has a reference")


def _conditions(evidence: ExperimentEvidence, arm: str) -> Iterable[Condition]:
    manifest = evidence.manifest
    return (Condition(arm, workload.name, load.name) for workload in manifest.workloads for load in manifest.loads)
