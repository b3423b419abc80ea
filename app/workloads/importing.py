"""Reads a source once, row by row, and makes a trace of it; memory does not grow with the file but for 32 bytes a row.

A row is kept or skipped with its reason. Under ``refuse`` one bad row refuses the import, after all of them are known.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Protocol

from app.domain.errors import DomainError
from app.workloads.choices import OnBadRow
from app.workloads.drafting import Draft, Drafter
from app.workloads.readers.format import Format
from app.workloads.record import BadRow, Item, Note, Record, RowRefused
from app.workloads.tally import Tally

Progress = Callable[[int], None]
"""Told how many bytes of the source have been read."""
PROGRESS_ROWS = 256


class Sink(Protocol):
    """Takes the drafts of kept rows."""

    def add(self, draft: Draft, arrival_ns: int | None) -> None:
        """Raises ``RowRefused`` for a row that it cannot hold."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A file and what it is."""

    path: Path
    format: Format
    sha256: str
    size: int


@dataclass(slots=True)
class Reading:
    """One pass over a source, with everything that was counted on the way."""

    source: Source
    tally: Tally = field(default_factory=Tally)
    remarks: Counter[str] = field(default_factory=Counter[str])
    strata: Counter[str] = field(default_factory=Counter[str])
    """Stratum (``task=copy``) → requests."""
    requests: int = 0
    complete: bool = True
    """False where ``limit`` ended the reading."""


def open_source(path: Path, source_format: Format) -> Source:
    """The file's identity; reads it once for its digest."""
    with path.open("rb") as file:
        return Source(path, source_format, file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def read_rows(
    source: Source,
    drafter: Drafter,
    sink: Sink,
    *,
    limit: int | None = None,
    on_bad: Callable[[BadRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Reading:
    """Draft every row into ``sink``, until ``limit`` rows are kept. Raises ``DomainError`` for the file as a whole."""
    reading = Reading(source)
    with source.path.open("rb") as file:
        for number, item in enumerate(source.format.read(file)):
            if reading.tally.kept == limit:
                reading.complete = False
                break
            outcome = _outcome(reading, item, drafter, sink)
            if isinstance(outcome, BadRow):
                reading.tally.refuse(outcome)
                on_bad(outcome)
            if number % PROGRESS_ROWS == 0:
                progress(file.tell())
    progress(source.size)
    reading.tally.check()
    if not reading.tally.read:
        raise DomainError.of("file", "it has no rows", "give a file with at least one row")
    return reading


def settle(reading: Reading, on_bad_row: OnBadRow) -> None:
    """Raise ``RowsRefused`` where there are bad rows and they refuse the import."""
    if reading.tally.skipped and on_bad_row is OnBadRow.REFUSE:
        raise reading.tally.refusal()


def _outcome(reading: Reading, item: Item, drafter: Drafter, sink: Sink) -> BadRow | None:
    if isinstance(item, Note):
        reading.tally.note(item)
        return None
    reading.tally.read += item.rows if isinstance(item, BadRow) else 1
    if isinstance(item, BadRow):
        return item
    try:
        _keep(reading, item, drafter, sink)
    except RowRefused as refusal:
        return BadRow(item.line, refusal.field, refusal.reason)
    return None


def _keep(reading: Reading, record: Record, drafter: Drafter, sink: Sink) -> None:
    _check_time(reading, record)
    draft = drafter.draft(record)
    sink.add(draft, record.arrival_ns)
    reading.tally.keep(record)
    reading.remarks.update(draft.remarks)
    reading.requests += len(draft.requests)
    reading.strata.update(_strata(draft))


def _check_time(reading: Reading, record: Record) -> None:
    """A source has times or has none; the first kept row decides."""
    if not reading.tally.kept:
        return
    if (record.arrival_ns is None) != (reading.tally.untimed > 0):
        raise RowRefused("timestamp", "is missing where earlier rows have one, or there where they have none")


def _strata(draft: Draft) -> Iterator[str]:
    for request in draft.requests:
        for dimension, label in request.strata.items():
            yield f"{dimension}={label}"
