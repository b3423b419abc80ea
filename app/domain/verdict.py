"""The word for each arm, workload and load, and the one recommendation over all of them.

Precedence (method A9): INVALID, EQUIVALENT, HELPS or HURTS, INCONCLUSIVE. Below two complete
blocks nothing is decided; below five every word is marked exploratory.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.answers import Answers
from app.domain.comparison import REQUEST_SPEEDUP, THROUGHPUT_RATIO, MetricComparison, family_size, primary_metric
from app.domain.condition import Condition, expand
from app.domain.control import Control
from app.domain.correctness import SAMPLED, Correctness
from app.domain.evidence import ExperimentEvidence
from app.domain.finding import BLOCKS_FOR_DECISION, BLOCKS_MIN, Finding, find, sharing
from app.domain.gates import Run, broken_gates
from app.domain.manifest import Manifest
from app.domain.pairing import CompleteBlocks, baseline_of
from app.domain.sampling_equality import SampledEquality, SamplingWord
from app.domain.statistics import Estimate
from app.domain.vocabulary import BASELINE_ARM, Outcome, Regime, Saturation, VerdictWord

NO_ANSWERS: Final = Answers()

_TOLD: Final = frozenset({Saturation.SATURATED, Saturation.SUSPECT})
"""Told for each condition; an undecided queue is told once, by the report."""

OUTSIDE_FAMILY: Final = "not in the declared family of comparisons: exploratory, no decision may rest on it"

_QUANTITY: Final = {
    REQUEST_SPEEDUP: "request speed (by median end-to-end time)",
    THROUGHPUT_RATIO: "output throughput (capacity, since the queue grows)",
}


class Verdict(BaseModel):
    """One line of the answer: one arm on one workload at one load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    load: str
    regime: Regime
    word: VerdictWord
    sentence: str
    reasons: tuple[str, ...]
    exploratory: bool
    metric: str
    ratio: Estimate | None
    blocks_needed: int | None


def decide(
    evidence: ExperimentEvidence,
    blocks: CompleteBlocks,
    comparisons: Sequence[MetricComparison],
    correctness: Sequence[Correctness],
    *,
    saturation: Mapping[Condition, Saturation],
    controls: Mapping[Run, tuple[Control, ...]],
    sampling: Sequence[SampledEquality] = (),
    answers: Answers = NO_ANSWERS,
) -> tuple[Verdict, ...]:
    """One verdict per candidate condition, in the manifest's order."""
    sampled = {one.arm: one for one in sampling}
    primary = {Condition(c.arm, c.workload, c.load): c for c in comparisons if c.primary}
    verified = {c.arm: c for c in correctness}
    broken = {
        condition: (
            *broken_gates(evidence, blocks, condition, controls),
            *verified[condition.arm].broken,
            *_sampled(sampled.get(condition.arm), SamplingWord.FAIL),
            *_lossy_acceptance(evidence.manifest, condition.arm),
            *answers.broken(condition),
        )
        for condition in expand(evidence.manifest)
        if condition.arm != BASELINE_ARM
    }
    shared = _shared(evidence.manifest, {c: p.log_ratios for c, p in primary.items() if not broken[c]})
    return tuple(
        _verdict(
            evidence.manifest,
            blocks,
            condition,
            broken=reasons,
            comparison=primary.get(condition),
            family=shared.get(condition),
            told=(
                *_told_of_outputs(verified[condition.arm]),
                *_sampled(sampled.get(condition.arm), SamplingWord.NOT_CHECKABLE),
                *answers.notes(condition),
            ),
            saturation=saturation,
        )
        for condition, reasons in broken.items()
    )


def _shared(manifest: Manifest, valid: Mapping[Condition, tuple[float, ...]]) -> dict[Condition, int]:
    """Each decided condition's share of the error; an invalid one counts in the family and is never claimed."""
    decided = {arm.name for arm in manifest.decided}
    conditions = [condition for condition in expand(manifest) if condition.arm in decided]
    steps = sharing(
        [valid.get(condition, ()) for condition in conditions],
        delta=manifest.margins.delta,
        confidence=manifest.margins.confidence,
        family=family_size(manifest),
    )
    return dict(zip(conditions, steps, strict=True))


def _verdict(
    manifest: Manifest,
    blocks: CompleteBlocks,
    condition: Condition,
    *,
    broken: tuple[str, ...],
    comparison: MetricComparison | None,
    family: int | None,
    told: tuple[str, ...],
    saturation: Mapping[Condition, Saturation],
) -> Verdict:
    """``family``: how many comparisons share the error at this one's step; ``None`` outside the declared family."""
    log_ratios = comparison.log_ratios if comparison else ()
    margins = manifest.margins
    decided = family is not None
    finding = find(log_ratios, delta=margins.delta, confidence=margins.confidence, family=family or 1)
    metric = primary_metric(condition, saturation)
    if broken:
        finding = Finding(VerdictWord.INVALID)
        sentence = f"{_where(condition)}: no claim about speed can be made: {broken[0]}."
    else:
        sentence = _sentence(condition, metric, finding, log_ratios, margins.delta)
    notes = (*_notes(manifest, blocks, condition, finding, saturation), *told)
    return Verdict(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        regime=next(load.regime for load in manifest.loads if load.name == condition.load),
        word=finding.word,
        sentence=sentence,
        reasons=broken or (*([] if decided else [OUTSIDE_FAMILY]), *notes),
        exploratory=len(log_ratios) < BLOCKS_FOR_DECISION or not decided,
        metric=metric,
        ratio=comparison.ratio if comparison and not broken else None,
        blocks_needed=finding.blocks_needed,
    )


def _told_of_outputs(correctness: Correctness) -> Iterator[str]:
    """Where nothing is held against the outputs, and yet not all is well."""
    if correctness.mismatched or correctness.processes <= 1:
        yield correctness.sentence


def _sampled(found: SampledEquality | None, word: SamplingWord) -> Iterator[str]:
    """What sampled answers are held to, where they came out as ``word``."""
    if found is not None and found.word is word:
        prefix = "sampled outputs are not checkable: " if word is SamplingWord.NOT_CHECKABLE else ""
        yield from (f"{prefix}{reason}" for reason in found.reasons)


def _lossy_acceptance(manifest: Manifest, name: str) -> Iterator[str]:
    mode = next(arm.speculation.rejection_sampling for arm in manifest.arms if arm.name == name)
    if mode.lossy:
        yield f"{mode} acceptance is lossy: its cost was measured, and its outputs are not the target's"


def _sentence(condition: Condition, metric: str, finding: Finding, log_ratios: Sequence[float], delta: float) -> str:
    if not log_ratios or finding.low is None or finding.high is None:
        return (
            f"{_where(condition)}: {len(log_ratios)} complete blocks; at least {BLOCKS_MIN} are needed to say anything."
        )
    ratio = math.exp(sum(log_ratios) / len(log_ratios))
    numbers = (
        f"{_QUANTITY[metric]} is {ratio:.3f} times target-only's "
        f"(interval {finding.low:.3f} to {finding.high:.3f}, {len(log_ratios)} blocks)"
    )
    match finding.word:
        case VerdictWord.HELPS:
            return f"{_where(condition)}: it helps; {numbers}, above the {delta:.0%} margin."
        case VerdictWord.HURTS:
            return f"{_where(condition)}: it hurts; {numbers}, below the {delta:.0%} margin."
        case VerdictWord.EQUIVALENT:
            return f"{_where(condition)}: it makes no difference of {delta:.0%} or more; {numbers}."
        case _:
            needed = finding.blocks_needed
            more = f"about {needed} blocks are needed" if needed else "no affordable number of blocks would settle it"
            return f"{_where(condition)}: undecided; {numbers}; {_direction(finding, delta)}{more}."


def _direction(finding: Finding, delta: float) -> str:
    if finding.low is not None and finding.low > 1:
        return f"positive, but a gain below {delta:.0%} is not excluded; "
    if finding.high is not None and finding.high < 1:
        return f"negative, but a loss below {delta:.0%} is not excluded; "
    return ""


def _notes(
    manifest: Manifest,
    blocks: CompleteBlocks,
    condition: Condition,
    finding: Finding,
    saturation: Mapping[Condition, Saturation],
) -> Iterator[str]:
    """What qualifies a word that is not INVALID."""
    if len(blocks.pairs(condition)) < BLOCKS_FOR_DECISION:
        yield f"exploratory: fewer than {BLOCKS_FOR_DECISION} complete blocks"
    for one in (baseline_of(condition), condition):
        if saturation[one] in _TOLD:
            yield f"saturation of {one.arm}: {saturation[one]}"
    failed = sum(
        o.outcome is not Outcome.SUCCESS
        for pair in blocks.pairs(condition)
        for run in (pair.target, pair.arm)
        for o in run.observations
    )
    if failed:
        yield f"{failed} requests failed and count as infinitely slow"
    if manifest.sampling.temperature > 0:
        yield SAMPLED
    if finding.word is VerdictWord.INCONCLUSIVE and finding.blocks_needed is None and len(blocks.indices) >= BLOCKS_MIN:
        yield _hopeless(finding, manifest.margins.delta)


def _hopeless(finding: Finding, delta: float) -> str:
    """Why no affordable number of blocks would decide it: by which of the two the interval is as it is."""
    if finding.low and finding.high and math.log(finding.high / finding.low) / 2 < math.log1p(delta):
        edges = f"{1 / (1 + delta):.3f} or {1 + delta:.3f} times"
        return f"the effect lies on the margin ({edges}), so that more blocks hardly decide it"
    return "the spread between blocks is too large"


def _where(condition: Condition) -> str:
    return f"{condition.arm} on {condition.workload} at {condition.load}"
