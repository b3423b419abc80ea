"""Cells of a CSV file: exact numbers, and no text that a spreadsheet would run.

A text that begins like a formula, or with an apostrophe, gets an apostrophe before it; so the text is what follows one
leading apostrophe, and a number is never touched.
"""

from typing import Final

FORMULA_STARTS: Final = frozenset("=+-@\t\r\n＝＋－＠")  # noqa: RUF001  (full-width signs start formulas too)
MARK: Final = "'"


def written(cell: str | float | bool | None) -> str:  # noqa: FBT001  (a cell, not a flag)
    """A cell's characters. A float's are the shortest that read back to it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return neutral(cell) if isinstance(cell, str) else repr(cell)


def neutral(text: str) -> str:
    """The text, marked where a spreadsheet would take it for a formula; ``plain`` undoes it."""
    return MARK + text if text[:1] in FORMULA_STARTS or text.startswith(MARK) else text


def plain(text: str) -> str:
    """The text that was marked by ``neutral``."""
    return text.removeprefix(MARK)
