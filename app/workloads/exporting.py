"""Gives source rows back in their own format: all that were kept, or those that a trace holds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError
from app.workloads.importing import Source
from app.workloads.readers.verdraft import FORMAT as OWN
from app.workloads.record import Record, Row
from app.workloads.slicing import read_header, read_requests


@dataclass(frozen=True, slots=True)
class Exported:
    """How many rows were written, of how many good ones."""

    rows: int
    good_rows: int


def export_rows(source: Source, output: Path, trace: Path | None = None) -> Exported:
    """Write the good rows of a source, every field of them; with a trace, only rows that it was made of."""
    if source.format is OWN:
        raise DomainError.of(
            "format", "a trace has no source rows of its own", "give the source, and the trace with --trace"
        )
    if output.exists() and output.samefile(source.path):
        raise DomainError.of("output", "it is the source itself", "give another file with --output")
    wanted = (lambda _line: True) if trace is None else _lines_of(trace, source)
    counts = _Counts()
    with output.open("w+b") as file:
        source.format.write(_rows(source, wanted, counts), file)
    return Exported(counts.written, counts.good)


@dataclass(slots=True)
class _Counts:
    written: int = 0
    good: int = 0


def _rows(source: Source, wanted: Callable[[int], bool], counts: _Counts) -> Iterator[Row]:
    with source.path.open("rb") as file:
        for item in source.format.read(file):
            if isinstance(item, Record):
                counts.good += 1
                if wanted(item.line):
                    counts.written += 1
                    yield item.row


def _lines_of(trace: Path, source: Source) -> Callable[[int], bool]:
    """Requests are named after their row's line (``r17``, and ``r17.1`` for its second turn)."""
    record = read_header(trace).record or {}
    if record.get("sha256") != source.sha256:
        raise DomainError.of("trace", "it was not imported from this source", "give the source that its header names")
    lines = {int(request.request_id[1:].partition(".")[0]) for request in read_requests(trace)}
    return lines.__contains__
