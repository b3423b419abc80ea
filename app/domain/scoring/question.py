"""What a scorer may know of a request; its prompt is no part of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.scoring.terms import Quality


@dataclass(frozen=True, slots=True)
class Question:
    """Each is ``None`` where the request has none."""

    reference: str | None = None
    json_schema: Mapping[str, Any] | None = None
    pattern: str | None = None
    tests: str | None = None


Score = Callable[[str, Question, Quality], float]
"""An answer's text, its question and the declared settings → 0 to 1."""
Lack = Callable[[Question, Quality], str | None]
"""What a question lacks for being scored, in words; ``None`` where nothing is missing."""


def needs_reference(question: Question, _: Quality) -> str | None:
    """The answer is compared with a right one."""
    return None if question.reference is not None else "reference"
