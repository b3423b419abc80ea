"""What a greedy answer that differs from target-only's means: the classes of method A15, as one pure function.

A defect must not hide behind a target that wavers, nor behind a mismatch that came up under load only: what no
rounding explains is a defect.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from app.domain.greedy import (
    Alternatives,
    Answer,
    Choices,
    Departure,
    Gap,
    batch_tolerance,
    departure,
    forks,
    gap_of,
    tie_tolerance,
)


class MismatchClass(StrEnum):
    """Why an arm's greedy answer differs, from what says least against the arm to what says most."""

    NONDETERMINISM = "NONDETERMINISM"
    """Target-only disagrees with itself on this request in the same way."""
    BATCH_EFFECT = "BATCH_EFFECT"
    """Singly both answer alike; under load rounding exchanged two tokens that lie close together."""
    NEAR_TIE = "NEAR_TIE"
    """They differ singly too, at a place where the target's two best tokens tie."""
    NOT_DIAGNOSED = "NOT_DIAGNOSED"
    """It was not asked again, or asking again failed."""
    SPEC_DEFECT = "SPEC_DEFECT"
    """The arm chose what the target would not have chosen."""


SEVERITY: Final = {kind: rank for rank, kind in enumerate(MismatchClass)}


class Case(NamedTuple):
    """One answer that differs, and all that was asked about its request."""

    answer: Answer
    """The arm's."""
    targets: frozenset[Answer]
    """Every answer of target-only in the same block: timed, verified and asked again."""
    elsewhere: frozenset[Answer]
    """Target-only's answers in other blocks, each block a process of its own."""
    target_singles: tuple[Answer, ...]
    """Of the fresh target-only server, one request at a time."""
    arm_singles: tuple[Answer, ...]
    """Of the arm's fresh server."""
    choices: Choices
    dtype: str
    raw_logits: bool
    why_not: str | None = None
    """Why it was not asked again."""
    is_left_out: bool = False
    """It was not asked again because there were too many, not because asking failed."""


class Diagnosis(NamedTuple):
    """The class in words, with the place and the gap on which it rests."""

    mismatch_class: MismatchClass
    words: str
    departure: Departure | None = None
    gap: Gap | None = None
    tolerance: float | None = None
    """The largest gap in nats that this class would allow."""
    alternatives: Alternatives = ()
    is_left_out: bool = False


def classify(case: Case) -> Diagnosis:
    """The worst that the answer, or the arm's single answers to the same request, show."""
    if case.answer in case.targets | case.elsewhere:
        words = "target-only gave this answer too, in another run, process or load: the target itself is not repeatable"
        return Diagnosis(MismatchClass.NONDETERMINISM, words)
    found = _judged(case, case.answer)
    if found.mismatch_class is MismatchClass.NOT_DIAGNOSED:
        return found
    again = [_judged(case, one) for one in _departing(case)]
    return max((found, *again), key=lambda d: SEVERITY[d.mismatch_class])


def _departing(case: Case) -> Iterable[Answer]:
    return dict.fromkeys(a for a in case.arm_singles if a not in case.targets | case.elsewhere)


def _judged(case: Case, answer: Answer) -> Diagnosis:
    left = departure(answer, case.targets)
    if left is None:
        return _not_diagnosed(case, "target-only gave no answer to compare with")
    if left.is_ending:
        return Diagnosis(MismatchClass.SPEC_DEFECT, _words_of_ending(left), left)
    if case.why_not is not None:
        return _not_diagnosed(case, case.why_not, left)
    if not case.target_singles or not case.arm_singles:
        return _not_diagnosed(case, "one of the two servers gave no single answer to it", left)
    alternatives = case.choices.get(left.beginning)
    if not alternatives:
        return _not_diagnosed(case, "the target's choice at this place is not known", left)
    gap = gap_of(left, alternatives, raw_logits=case.raw_logits)
    return _by_gap(case, left, gap)._replace(departure=left, gap=gap, alternatives=alternatives)


def _by_gap(case: Case, left: Departure, gap: Gap) -> Diagnosis:
    tie, batch = tie_tolerance(gap.magnitude, case.dtype), batch_tolerance(gap.magnitude, case.dtype)
    wavers = max(batch, _own_gap(case))
    if len(case.targets | case.elsewhere) > 1 and _within(gap, wavers):
        words = "target-only disagrees with itself on this request by as much: nothing can be held against the arm"
        return Diagnosis(MismatchClass.NONDETERMINISM, words, tolerance=wavers)
    if not _is_singly(case, left):
        if _within(gap, batch):
            words = (
                "asked one at a time both give the same answer: sharing steps moved two close tokens past each other"
            )
            return Diagnosis(MismatchClass.BATCH_EFFECT, words, tolerance=batch)
        words = "it did not come up singly, but no rounding explains so large a gap: the arm chose another token"
        return Diagnosis(MismatchClass.SPEC_DEFECT, words, tolerance=batch)
    if _within(gap, tie) and not gap.between:
        words = "the target's two best tokens tie here, and the arm took the other one"
        return Diagnosis(MismatchClass.NEAR_TIE, words, tolerance=tie)
    words = "asked alone the arm differs again, and the target clearly prefers its own token"
    return Diagnosis(MismatchClass.SPEC_DEFECT, words, tolerance=tie)


def _within(gap: Gap, tolerance: float) -> bool:
    return not gap.is_bound and gap.nats <= tolerance


def _is_singly(case: Case, left: Departure) -> bool:
    """Whether the arm, asked alone, leaves at the same place with the same token."""
    place = len(left.beginning)
    return any(a.token_ids[: place + 1] == (*left.beginning, left.token) for a in case.arm_singles)


def _own_gap(case: Case) -> float:
    """The largest gap at which target-only parted from itself; 0 where none is known."""
    widest = 0.0
    for beginning in forks(case.targets, case.targets):
        taken = _taken(case.targets, beginning)
        logits = {a.token_id: a.logit for a in case.choices.get(beginning, ()) if a.token_id in taken}
        if len(logits) > 1:
            widest = max(widest, max(logits.values()) - min(logits.values()))
    return widest


def _taken(targets: Iterable[Answer], beginning: tuple[int, ...]) -> set[int]:
    place = len(beginning)
    return {t.token_ids[place] for t in targets if len(t.token_ids) > place and t.token_ids[:place] == beginning}


def _words_of_ending(left: Departure) -> str:
    place = len(left.beginning)
    if left.token is not None:
        return f"its tokens are target-only's, and it goes on after {place} tokens where target-only has ended"
    if all(token is None for token in left.expected):
        return "its tokens are target-only's, but the reason for its end, or its text, is another"
    return f"its tokens are target-only's, but it ends after {place} tokens where target-only goes on"


def _not_diagnosed(case: Case, why: str, left: Departure | None = None) -> Diagnosis:
    return Diagnosis(MismatchClass.NOT_DIAGNOSED, why, left, is_left_out=case.is_left_out)
