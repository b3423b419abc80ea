"""Every scorer by its name: what it computes, what it needs of a request, and its version.

The version is stored with the scores: a changed rule is another version, and scores of two versions are never mixed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.scoring import forms, numeric, programs, texts
from app.domain.scoring.question import Lack, Question, Score, needs_reference
from app.domain.scoring.terms import Quality, ScorerName


@dataclass(frozen=True, slots=True)
class Scorer:
    """``score`` is ``None`` where the answer must be run, which only a worker does."""

    score: Score | None
    lack: Lack
    version: int = 1


SCORERS: Final[Mapping[ScorerName, Scorer]] = {
    ScorerName.EXACT: Scorer(texts.exact, needs_reference),
    ScorerName.NORMALISED: Scorer(texts.normalised, needs_reference),
    ScorerName.NUMERIC: Scorer(numeric.numeric, numeric.lack),
    ScorerName.OVERLAP: Scorer(texts.overlap, needs_reference),
    ScorerName.REGEX: Scorer(forms.regex, forms.regex_lack),
    ScorerName.JSON_SCHEMA: Scorer(forms.json_schema, forms.json_schema_lack),
    ScorerName.UNIT_TESTS: Scorer(None, programs.lack),
}


def version_of(quality: Quality) -> str:
    """``normalised/1``: what is stored beside the scores."""
    return f"{quality.scorer}/{SCORERS[quality.scorer].version}"


def is_pure(quality: Quality) -> bool:
    """Whether a score follows from the answer's text alone, so that anyone can compute it again."""
    return SCORERS[quality.scorer].score is not None


def lack_of(question: Question, quality: Quality) -> str | None:
    """What the request lacks for being scored, in words."""
    return SCORERS[quality.scorer].lack(question, quality)


def score_of(text: str, question: Question, quality: Quality) -> float:
    """The score of one answer. Raises ``ValueError`` where the scorer is not pure."""
    score = SCORERS[quality.scorer].score
    if score is None:
        raise ValueError(f"{quality.scorer} runs the answer; it has no score by its text")
    return score(text, question, quality)
