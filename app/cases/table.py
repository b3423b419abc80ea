"""Cases as CSV: units in the names, and no cell that a spreadsheet would run."""

import csv
import io
from collections.abc import Iterable
from typing import Final

from app.cases.schemas import CaseRead
from app.interop.exports.as_csv import written

COLUMNS: Final = tuple(CaseRead.model_fields)


def header() -> bytes:
    """The first line."""
    return _lines([COLUMNS])


def lines(cases: Iterable[CaseRead]) -> bytes:
    """A line each."""
    return _lines([_cell(case, name) for name in COLUMNS] for case in cases)


def _cell(case: CaseRead, name: str) -> str:
    value = getattr(case, name)
    if name == "strata":
        return written(" ".join(value))
    return written(str(value) if name in {"run_id", "outcome"} else value)


def _lines(rows: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
