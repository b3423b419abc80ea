"""What the answers themselves say of an arm: whether as many are correct, and whether they degenerate."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.domain import correct_answers as correctly
from app.domain import degenerate as degenerately
from app.domain.condition import Condition
from app.domain.correct_answers import CorrectAnswers
from app.domain.degenerate import DegenerateAnswers
from app.domain.evidence import ExperimentEvidence
from app.domain.pairing import CompleteBlocks


@dataclass(frozen=True, slots=True)
class Answers:
    """Over complete blocks."""

    correct: tuple[CorrectAnswers, ...] = ()
    degenerate: tuple[DegenerateAnswers, ...] = ()

    def broken(self, condition: Condition) -> Iterator[str]:
        """Why the condition's speed means nothing, whatever it is."""
        yield from correctly.broken_by(self.correct, condition)
        yield from degenerately.broken_by(self.degenerate, condition)

    def notes(self, condition: Condition) -> Iterator[str]:
        """What qualifies it."""
        yield from correctly.notes_on(self.correct, condition)
        yield from degenerately.notes_on(self.degenerate, condition)


def look_at_answers(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Answers:
    """Every arm beside target-only."""
    return Answers(correctly.correct_answers(evidence, blocks), degenerately.degenerate_answers(evidence, blocks))
