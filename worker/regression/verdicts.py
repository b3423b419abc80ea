"""What a case can end with, the facts it raises to say so, and the matrix that is kept of it all."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

EXCERPT_CHARS = 600


class Status(StrEnum):
    """The four endings of a cell; only ``FAILED`` is held against the engine."""

    PASSED = "pass"
    FAILED = "FAIL"
    REFUSED = "refused by the engine"
    NOT_APPLICABLE = "not applicable"


class Broken(Exception):
    """The engine did otherwise than it must."""

    def __init__(self, what: str, *, expected: object, found: object) -> None:
        super().__init__(what)
        self.what, self.expected, self.found = what, excerpt(expected), excerpt(found)


class EngineRefused(Exception):
    """The engine answered a request with an error that is the client's: it does not do this."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {excerpt(words)}")
        self.status = status


class NotApplicable(Exception):
    """The case says nothing about this server, and why."""


class EngineGone(Exception):
    """No answer at all: its log has to say why."""


class EngineErred(Exception):
    """The engine answered with an error of its own (5xx)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(_Frozen):
    """One case on one method, with what was sent last and what came back."""

    case: str
    status: Status
    words: str = ""
    """Why it is not a pass; of a pass, what makes it one."""
    expected: str = ""
    found: str = ""
    request: str = ""
    response: str = ""
    requests: int = 0
    """How many the case sent."""
    reproduce: str = ""
    """The command that shows a fail alone."""


class Row(_Frozen):
    """One method; ``drafted`` and ``accepted`` are its server's counters after all cases, where it has them."""

    method: str
    k: int
    cells: tuple[Cell, ...]
    drafted: int | None = None
    accepted: int | None = None
    startup_words: str = ""

    def cell(self, case: str) -> Cell | None:
        """The cell of a case, if it was run."""
        return next((cell for cell in self.cells if cell.case == case), None)


class RegressionMatrix(_Frozen):
    """Everything that one call of the command found."""

    runtime: str
    rows: tuple[Row, ...]

    @property
    def fails(self) -> tuple[tuple[Row, Cell], ...]:
        """The cells that fail, row by row."""
        return tuple((row, cell) for row in self.rows for cell in row.cells if cell.status is Status.FAILED)


def joined(earlier: RegressionMatrix, later: RegressionMatrix) -> RegressionMatrix:
    """The cells of both, the later ones in place of the earlier. Raises ``ValueError`` for two runtimes."""
    if earlier.runtime != later.runtime:
        raise ValueError(f"a matrix of {earlier.runtime} and one of {later.runtime} are not one")
    rows = {row.method: row for row in earlier.rows}
    for row in later.rows:
        rows[row.method] = _joined_row(rows[row.method], row) if row.method in rows else row
    return RegressionMatrix(runtime=later.runtime, rows=tuple(rows.values()))


def _joined_row(earlier: Row, later: Row) -> Row:
    """The counters stay those of the server that drafted more: the other answered fewer cases."""
    cells = {cell.case: cell for cell in (*earlier.cells, *later.cells)}
    more = max((earlier, later), key=lambda row: row.drafted or 0)
    words = later.startup_words or earlier.startup_words
    counted = {"drafted": more.drafted, "accepted": more.accepted}
    return later.model_copy(update={"cells": tuple(cells.values()), "startup_words": words, **counted})


def excerpt(value: object, chars: int = EXCERPT_CHARS) -> str:
    """The beginning of what a value looks like, on one line."""
    told = " ".join(str(value).split())
    return told if len(told) <= chars else f"{told[: chars - 1]}…"
