"""From differing answers to cases: what was asked again about each, by which servers, and why not where it was not.

A block's fresh servers speak for the block; where they were not asked, those of another block may.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.domain.evidence import SessionEvidence
from app.domain.greedy import Alternatives, Answer, Prompt, answer_of
from app.domain.greedy_classes import Case, Diagnosis, classify
from app.domain.greedy_tables import Difference, GreedyEvidence, heard
from app.domain.verified import VerificationMode, VerificationRecord
from app.domain.vocabulary import BASELINE_ARM

NOT_ASKED: Final = "no server was started to ask it again"


class Rerun(NamedTuple):
    """One answer of a fresh server."""

    block: int
    arm: str
    mode: VerificationMode
    repeat: int
    answer: Answer


class Diagnosed(NamedTuple):
    """A difference with its class and what was re-run for it."""

    difference: Difference
    diagnosis: Diagnosis
    reruns: tuple[Rerun, ...]
    raw_logits: bool
    token_texts: dict[int, str]


@dataclass(slots=True)
class _Again:
    """What the fresh servers of one block were asked about one prompt."""

    reruns: list[Rerun] = field(default_factory=list[Rerun])
    choices: dict[tuple[int, ...], Alternatives] = field(default_factory=dict[tuple[int, ...], Alternatives])
    raw_logits: bool = False
    token_texts: dict[int, str] = field(default_factory=dict[int, str])

    def of(self, arm: str) -> tuple[Rerun, ...]:
        return tuple(rerun for rerun in self.reruns if rerun.arm == arm)

    def singles(self, arm: str) -> tuple[Answer, ...]:
        return tuple(rerun.answer for rerun in self.of(arm) if rerun.mode is VerificationMode.SINGLE)


_Index = dict[Prompt, dict[int, _Again]]


def diagnosed(
    evidence: GreedyEvidence, diagnoses: Sequence[SessionEvidence], arm: str, differences: Sequence[Difference]
) -> tuple[Diagnosed, ...]:
    """Every difference of an arm with its class."""
    wanted = frozenset(d.prompt for d in differences)
    if not wanted:
        return ()
    known, index = heard(evidence, BASELINE_ARM, wanted), _index(diagnoses, arm)
    found: list[Diagnosed] = []
    for difference in differences:
        again = _of_block(index.get(difference.prompt, {}), arm, difference.block)
        why_not, is_left_out = (None, False) if again else _why_not(diagnoses, arm, difference)
        again = again or _Again()
        case = _case(evidence, difference, known[difference.prompt], again, arm)
        diagnosis = classify(case._replace(why_not=why_not, is_left_out=is_left_out))
        reruns = (*again.of(BASELINE_ARM), *again.of(arm))
        found.append(Diagnosed(difference, diagnosis, reruns, again.raw_logits, again.token_texts))
    return tuple(found)


def left_out_name(prompt: Prompt) -> str:
    """How a prompt is named in ``VerificationRecord.left_out``; neither part can have a slash."""
    return f"{prompt.workload}/{prompt.request_id}"


def _case(
    evidence: GreedyEvidence, difference: Difference, known: dict[int, set[Answer]], again: _Again, arm: str
) -> Case:
    elsewhere = (answers for block, answers in known.items() if block != difference.block)
    return Case(
        answer=difference.arm,
        targets=frozenset(known.get(difference.block, set()) | {rerun.answer for rerun in again.of(BASELINE_ARM)}),
        elsewhere=frozenset[Answer]().union(*elsewhere),
        target_singles=again.singles(BASELINE_ARM),
        arm_singles=again.singles(arm),
        choices=again.choices,
        dtype=evidence.manifest.serving.dtype,
        raw_logits=again.raw_logits,
    )


def _index(diagnoses: Sequence[SessionEvidence], arm: str) -> _Index:
    index: _Index = defaultdict(lambda: defaultdict(_Again))
    for session in sorted(diagnoses, key=lambda s: (s.block, s.position)):  # the same facts give the same bytes
        if session.verification is not None and session.arm in {arm, BASELINE_ARM}:
            _enter(index, session, session.verification)
    return index


def _enter(index: _Index, session: SessionEvidence, record: VerificationRecord) -> None:
    for given in record.answers:
        answer = answer_of(given)
        if answer is not None:
            rerun = Rerun(session.block, session.arm, given.mode, given.repeat, answer)
            index[Prompt(given.workload, given.request_id)][session.block].reruns.append(rerun)
    for choice in record.choices:
        again = index[Prompt(choice.workload, choice.request_id)][session.block]
        again.choices[choice.beginning] = choice.alternatives
        again.raw_logits, again.token_texts = record.raw_logits, record.token_texts


def _of_block(by_block: dict[int, _Again], arm: str, block: int) -> _Again | None:
    """This block's, or else the first other block's in which both servers answered."""
    both = [b for b in sorted(by_block) if by_block[b].of(arm) and by_block[b].of(BASELINE_ARM)]
    chosen = block if block in both else next(iter(both), None)
    return None if chosen is None else by_block[chosen]


def _why_not(diagnoses: Sequence[SessionEvidence], arm: str, difference: Difference) -> tuple[str, bool]:
    """In words, and whether it was left out on purpose."""
    name = left_out_name(difference.prompt)
    for session in (s for s in diagnoses if s.block == difference.block and s.arm == arm):
        if session.verification is not None and name in session.verification.left_out:
            return session.verification.left_out[name], True
    failed: Iterator[str] = (
        f"asking {session.arm} again failed: {session.failure.message}"
        for session in diagnoses
        if session.block == difference.block and session.arm in {arm, BASELINE_ARM} and session.failure
    )
    return next(failed, NOT_ASKED), False
