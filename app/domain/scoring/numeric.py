"""Score by the number that an answer ends in: the last one in the text, as worked solutions give it."""

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from app.domain.scoring.question import Question
from app.domain.scoring.terms import Quality

DIGITS_MAX: Final = 400
"""Longer ones are no numbers that anyone meant."""
_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+\u2212]?"
    r"(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))"  # thousands set apart, or not; a fraction needs a digit
    r"(?:[eE][-+]?\d{1,3})?(?!\w)"
)
_CONTEXT: Final = Context(prec=DIGITS_MAX * 3)


def numeric(text: str, question: Question, quality: Quality) -> float:
    """1 where the last number is the reference's, within ``absolute + relative · |reference|``."""
    found, wanted = last_number(text), last_number(question.reference or "")
    if found is None or wanted is None:
        return 0.0
    absolute, relative = Decimal(quality.absolute_tolerance or 0), Decimal(quality.relative_tolerance or 0)
    allowed = _CONTEXT.add(absolute, _CONTEXT.multiply(relative, abs(wanted)))
    return float(abs(_CONTEXT.subtract(found, wanted)) <= allowed)


def lack(question: Question, _: Quality) -> str | None:
    """A reference that holds a number."""
    if question.reference is None:
        return "reference"
    return None if last_number(question.reference) is not None else "number in its reference"


def last_number(text: str) -> Decimal | None:
    """The last number in a text; thousands may be set apart by commas."""
    found = [match for match in _NUMBER.findall(text) if len(match) <= DIGITS_MAX]
    if not found:
        return None
    try:
        return Decimal(found[-1].replace(",", "").replace("\u2212", "-"))
    except InvalidOperation:
        return None
