"""CSV by RFC 4180: a row for each offered request, and no text that a spreadsheet would run.

How a text that begins like a formula is marked, ``app.spreadsheet`` says.
"""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Final

from app.domain.evidence import RunEvidence
from app.domain.observation import RequestObservation
from app.interop.exports.outline import Outline
from app.interop.exports.rows import (
    DERIVED,
    IMPOSSIBLE,
    PLACE,
    SCALARS,
    SPECULATION_SCALARS,
    Place,
    derived_cells,
    place_of,
    speculation_cells,
    strata_cells,
)
from app.spreadsheet import written

ROWS_AT_ONCE: Final = 500


class CsvEncoder:
    """``begin`` is the header line."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline

    def begin(self) -> bytes:
        return _lines([columns(self._outline)])

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        place = place_of(self._outline, run)
        rows = (self._row(run, place, o) for o in run.observations)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            yield _lines(some)

    def end(self) -> bytes:
        return b""

    def _row(self, run: RunEvidence, place: Place, observation: RequestObservation) -> list[str]:
        strata = (label for _, label in strata_cells(self._outline, run, observation.request_id))
        seen = (getattr(observation, name) for name in SCALARS)
        counts = (len(observation.chunk_ns), len(observation.token_ids))
        computed = (*derived_cells(observation).values(), *speculation_cells(observation).values())
        return [written(cell) for cell in (*place, *strata, *seen, *counts, *computed)]


def columns(outline: Outline) -> list[str]:
    """The header: always in this order; only the strata depend on the experiment."""
    strata = (f"stratum_{dimension}" for dimension in outline.dimensions)
    computed = (*DERIVED, IMPOSSIBLE, *SPECULATION_SCALARS, "num_rejected_draft_tokens")
    return [*PLACE, *strata, *SCALARS, "chunks", "tokens", *computed]


def _lines(rows: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
