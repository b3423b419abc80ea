"""The words over a set of blocks, and the look at which an experiment with planned looks may stop.

A look after n blocks is over the first n of the schedule, once all of them are complete, so that it comes out the same
whoever takes it and whenever. It stops the experiment where it leaves no word of the declared family undecided.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.answers import Answers, look_at_answers
from app.domain.comparison import MetricComparison, compare
from app.domain.condition import Condition
from app.domain.control import Control
from app.domain.correctness import Verification, verify
from app.domain.evidence import ExperimentEvidence
from app.domain.gates import Run, controls_of
from app.domain.looks import PlannedLook, final_confidence, planned_looks
from app.domain.output_length import with_output_lengths
from app.domain.pairing import CompleteBlocks, complete_blocks
from app.domain.sampling_equality import SampledEquality
from app.domain.sampling_evidence import sampled_equality
from app.domain.saturation import saturations
from app.domain.verdict import Verdict, decide
from app.domain.vocabulary import Saturation, VerdictWord


class LookTaken(BaseModel):
    """One look: how much of the error it may spend, what it found, and whether it ends the experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    blocks: int
    of: int
    confidence: float
    words: dict[str, int]
    """Word → how many comparisons of the family have it."""
    stops: bool
    sentence: str


class Judged(NamedTuple):
    """Everything that words rest on. ``evidence`` declares the confidence at which they were found."""

    evidence: ExperimentEvidence
    blocks: CompleteBlocks
    saturation: Mapping[Condition, Saturation]
    comparisons: tuple[MetricComparison, ...]
    verification: Verification
    controls: Mapping[Run, tuple[Control, ...]]
    sampling: tuple[SampledEquality, ...]
    answers: Answers
    verdicts: tuple[Verdict, ...]


def judge(evidence: ExperimentEvidence) -> tuple[Judged, tuple[LookTaken, ...]]:
    """As of the first look that stops the experiment, or else of all there is; with the looks that were due."""
    *early, end = planned_looks(evidence.manifest)
    indices, taken = set(complete_blocks(evidence).indices), list[LookTaken]()
    for look in early:
        if indices.issuperset(range(look.blocks)):
            found = _judged(_first(evidence, look.blocks), look.confidence)
            taken.append(_taken(found, look, stops=_settled(found)))
            if taken[-1].stops:
                return found, tuple(taken)
    found = _judged(evidence, final_confidence(evidence.manifest))
    if early and len(indices) == end.blocks:
        taken.append(_taken(found, end, stops=True))
    return found, tuple(taken)


def stopping_look(evidence: ExperimentEvidence) -> LookTaken | None:
    """The early look that ends the experiment; ``None`` while it goes on."""
    return next((look for look in judge(evidence)[1] if look.stops and look.blocks < look.of), None)


def _first(evidence: ExperimentEvidence, blocks: int) -> ExperimentEvidence:
    """The evidence of the schedule's first blocks."""
    return evidence.model_copy(
        update={
            "sessions": tuple(s for s in evidence.sessions if s.block < blocks),
            "runs": tuple(r for r in evidence.runs if r.block < blocks),
            "diagnoses": tuple(s for s in evidence.diagnoses if s.block < blocks),
        }
    )


def _judged(evidence: ExperimentEvidence, confidence: float) -> Judged:
    evidence = with_output_lengths(evidence)  # here, so that strata too rest on this look's blocks alone
    blocks = complete_blocks(evidence)
    manifest = evidence.manifest
    margins = manifest.margins.model_copy(update={"confidence": confidence})
    at = evidence.model_copy(update={"manifest": manifest.model_copy(update={"margins": margins})})
    saturation = saturations(evidence, blocks)
    comparisons, verification = compare(at, blocks, saturation), verify(evidence, blocks)
    # What may make an arm invalid is looked for with the declared error at every look: it is no claim.
    controls, sampling, answers = (
        controls_of(evidence, blocks),
        sampled_equality(evidence),
        look_at_answers(evidence, blocks),
    )
    verdicts = decide(
        at,
        blocks,
        comparisons,
        verification.correctness,
        saturation=saturation,
        controls=controls,
        sampling=sampling,
        answers=answers,
    )
    return Judged(at, blocks, saturation, comparisons, verification, controls, sampling, answers, verdicts)


def _settled(found: Judged) -> bool:
    return VerdictWord.INCONCLUSIVE not in _words(found)


def _words(found: Judged) -> Counter[VerdictWord]:
    decided = {arm.name for arm in found.evidence.manifest.decided}
    return Counter(v.word for v in found.verdicts if v.arm in decided)


def _taken(found: Judged, look: PlannedLook, *, stops: bool) -> LookTaken:
    words, of = _words(found), found.evidence.manifest.blocks
    said = ", ".join(f"{word} {words[word]}" for word in VerdictWord if words[word])
    ending = (
        "the end" if look.blocks == of else "every word of the family is settled: it stops" if stops else "it goes on"
    )
    return LookTaken(
        blocks=look.blocks,
        of=of,
        confidence=look.confidence,
        words={str(word): n for word, n in words.items()},
        stops=stops,
        sentence=f"After {look.blocks} of {of} blocks, at {look.error:.2%} of error: {said}; {ending}.",
    )
