"""Correctness before speed: an arm's greedy answers against target-only's, each difference with its class.

Compared are the timed answers of greedy experiments and, in every experiment, those of the verification phase.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence
from app.domain.greedy import Prompt
from app.domain.greedy_cases import Diagnosed, diagnosed
from app.domain.greedy_classes import SEVERITY, MismatchClass
from app.domain.greedy_mismatch import Mismatch, mismatch_of
from app.domain.greedy_rates import EXCESS_MARGIN, MatchRate, defect_share, match_rate
from app.domain.greedy_tables import GreedyEvidence, GreedyMode, Tally, tallies
from app.domain.lifecycle import SessionState
from app.domain.pairing import CompleteBlocks
from app.domain.statistics import Estimate, proportion
from app.domain.unanswered import Unanswered, unanswered
from app.domain.vocabulary import BASELINE_ARM, Outcome

MISMATCHES_LISTED: Final = 200
SAMPLED: Final = "timed outputs were sampled (temperature above 0), so equal tokens are not expected of them"


class Correctness(BaseModel):
    """Greedy equality of one arm with target-only, and what its differences mean; prompts count once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    compared: int
    mismatched: int
    rates: tuple[MatchRate, ...]
    classes: dict[MismatchClass, int]
    """Mismatched prompts by the worst class of any of their answers."""
    diagnosed: int
    """Mismatched prompts with a class of their own."""
    left_out: int
    """Mismatched prompts beyond those that a block asks again."""
    defect_share: Estimate
    """Among the diagnosed."""
    processes: int
    """Fresh processes of each arm in which its answers were looked at."""
    unanswered: int
    """Prompts of the verification phase that target-only answered and the arm never did."""
    broken: tuple[str, ...]
    """Why no claim about speed can be made; empty where the outputs are the target's."""
    sentence: str
    reference_exact: Estimate
    """Share of requests with a reference whose text equals it: is the model doing the task at all?"""
    baseline_reference_exact: Estimate


class Verification(NamedTuple):
    """One ``Correctness`` per candidate arm, and every mismatch, the gravest first."""

    correctness: tuple[Correctness, ...]
    mismatches: tuple[Mismatch, ...]


def verify(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Verification:
    """Compare every candidate with target-only over the complete blocks."""
    compared = greedy_evidence(evidence, blocks)
    correctness: list[Correctness] = []
    listed: list[Mismatch] = []
    for arm in evidence.manifest.candidates:
        tally = tallies(compared, arm.name)
        differences = tuple(chain.from_iterable(t.differences for t in tally.values()))
        found = diagnosed(compared, evidence.diagnoses, arm.name, differences)
        listed += (mismatch_of(arm.name, one) for one in found)
        silent = unanswered(compared.sessions, arm.name)
        correctness.append(_correctness(evidence, blocks, arm.name, tally, found, silent=silent))
    gravest_first = sorted(listed, key=lambda m: (-SEVERITY[m.mismatch_class], m.block))
    return Verification(tuple(correctness), tuple(gravest_first))


def greedy_evidence(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> GreedyEvidence:
    """What of the complete blocks was answered greedily."""
    timed = evidence.manifest.sampling.temperature == 0
    return GreedyEvidence(
        manifest=evidence.manifest,
        sessions=tuple(s for s in evidence.sessions if s.block in blocks.indices),
        runs=tuple(chain.from_iterable(by_block.values() for by_block in blocks.runs.values())) if timed else (),
        sampled=frozenset(
            Prompt(workload, label.request_id)
            for workload, labels in evidence.labels.items()
            for label in labels
            if label.is_sampled
        ),
    )


def _correctness(
    evidence: ExperimentEvidence,
    blocks: CompleteBlocks,
    arm: str,
    tally: Mapping[GreedyMode, Tally],
    found: Sequence[Diagnosed],
    *,
    silent: Unanswered,
) -> Correctness:
    rates = tuple(match_rate(mode, t) for mode, t in tally.items())
    worst = _by_prompt(found)
    classes = Counter(one.diagnosis.mismatch_class for one in worst)
    left_out = sum(one.diagnosis.is_left_out for one in worst)
    looked_at = len(worst) - classes[MismatchClass.NOT_DIAGNOSED]
    compared = max((rate.prompts for rate in rates), default=0)
    broken = (*_died(evidence, blocks, arm), *_broken(arm, compared, worst, rates), *_silent(arm, silent))
    processes = max((rate.processes for rate in rates), default=0)
    return Correctness(
        arm=arm,
        compared=compared,
        mismatched=len(worst),
        rates=rates,
        classes={kind: classes[kind] for kind in MismatchClass if classes[kind]},
        diagnosed=looked_at,
        left_out=left_out,
        defect_share=defect_share(classes[MismatchClass.SPEC_DEFECT], looked_at),
        processes=processes,
        unanswered=silent.prompts,
        broken=broken,
        sentence=_sentence(arm, compared, worst, processes, broken),
        reference_exact=_reference_exact(evidence, blocks, arm),
        baseline_reference_exact=_reference_exact(evidence, blocks, BASELINE_ARM),
    )


def _by_prompt(found: Iterable[Diagnosed]) -> tuple[Diagnosed, ...]:
    """The gravest of each prompt; what was left out weighs less than what failed."""
    worst: dict[Prompt, Diagnosed] = {}
    for one in found:
        known = worst.setdefault(one.difference.prompt, one)
        if _gravity(one) > _gravity(known):
            worst[one.difference.prompt] = one
    return tuple(worst.values())


def _gravity(one: Diagnosed) -> tuple[int, bool]:
    return SEVERITY[one.diagnosis.mismatch_class], not one.diagnosis.is_left_out


def _died(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> Iterator[str]:
    """An engine that was measured to the end and then did not survive being verified."""
    for session in evidence.sessions:
        measured = all(session.block in blocks.runs.get(c, {}) for c in _conditions(evidence, arm))
        if session.arm == arm and session.state is SessionState.FAILED and measured and session.failure:
            yield f"block {session.block + 1}: {arm} did not survive its verification: {session.failure.message}"


def _broken(arm: str, compared: int, worst: Sequence[Diagnosed], rates: Iterable[MatchRate]) -> Iterator[str]:
    defects = [one for one in worst if one.diagnosis.mismatch_class is MismatchClass.SPEC_DEFECT]
    if defects:
        first = defects[0].difference.prompt
        yield (
            f"{len(defects)} of {len(worst)} greedy answers of {arm} that differ from target-only's are defects "
            f"({first.workload}/{first.request_id}: {defects[0].diagnosis.words})"
        )
    failed = [one for one in worst if _is_untold(one)]
    if failed:
        why = failed[0].diagnosis.words
        what = f"{len(failed)} of {compared} greedy answers of {arm} differ from target-only's"
        yield f"{what} and could not be diagnosed: {why}"
    for rate in rates:
        if rate.is_excessive:
            yield (
                f"{rate.differing} of {rate.prompts} {rate.mode} greedy answers of {arm} differ from target-only's: "
                f"more than {EXCESS_MARGIN:.0%} above target-only against itself (at least {rate.excess.low:.1%})"
            )


def _silent(arm: str, silent: Unanswered) -> Iterator[str]:
    if silent.prompts:
        yield (
            f"{silent.prompts} of {silent.expected} greedy requests that target-only answered when its outputs were "
            f"verified got no answer from {arm}, at any time: {silent.why}"
        )


def _is_untold(one: Diagnosed) -> bool:
    return one.diagnosis.mismatch_class is MismatchClass.NOT_DIAGNOSED and not one.diagnosis.is_left_out


def _sentence(arm: str, compared: int, worst: Sequence[Diagnosed], processes: int, broken: Sequence[str]) -> str:
    if broken:
        return broken[0]
    if not compared:
        return f"no greedy answer of {arm} could be compared with target-only's"
    where = "in one process only" if processes == 1 else f"in {processes} processes"
    if not worst:
        return f"all {compared} greedy answers of {arm} are target-only's, {where}"
    looked_at = sum(one.diagnosis.mismatch_class is not MismatchClass.NOT_DIAGNOSED for one in worst)
    bound = defect_share(0, looked_at).high
    most = f"none is a defect (of all of them at most {bound:.0%})" if bound is not None else "none was diagnosed"
    return f"{len(worst)} of {compared} greedy answers of {arm} differ, {where}; {looked_at} were diagnosed, {most}"


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
