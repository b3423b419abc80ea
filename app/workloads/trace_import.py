"""The whole of an import: source → drafts on disk → timeline → trace, and the record of how it came about."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from app.domain.errors import DomainError
from app.domain.trace_header import TraceHeader
from app.workloads.assembly import loads_of, thin_strata, trace_lines, warmup_requests
from app.workloads.choices import OnBadRow, Turns
from app.workloads.drafting import Drafter
from app.workloads.importing import Progress, Reading, Sink, Source, read_rows, settle
from app.workloads.loads import Timing
from app.workloads.output import Written, write_lines
from app.workloads.privacy import KEYED_HASH, ProjectKey
from app.workloads.private_sink import PrivateSink
from app.workloads.record import BadRow
from app.workloads.spool import Spool
from app.workloads.tally import place
from app.workloads.timeline import Timeline, lay_out

BAD_ROWS_IN_HEADER = 20


@dataclass(frozen=True, slots=True)
class Target:
    """What to make. With a key the prompts go to ``prompts`` and the trace holds hashes."""

    path: Path
    name: str
    description: str | None = None
    key: ProjectKey | None = None
    prompts: Path | None = None
    differs: Callable[[], tuple[str, ...]] = tuple
    """Asked after the reading: how the content differs from what the source recorded."""
    options: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The choices of the import, for its record."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A finished import."""

    trace: Written
    prompts: Written | None
    header: TraceHeader
    reading: Reading
    warnings: tuple[str, ...]


def import_trace(
    source: Source,
    drafter: Drafter,
    timing: Timing,
    target: Target,
    *,
    on_bad_row: OnBadRow = OnBadRow.REFUSE,
    limit: int | None = None,
    on_bad: Callable[[BadRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Imported:
    """Make the trace, or raise ``DomainError`` and leave nothing behind."""
    _check_target(source, drafter, target)
    with Spool(target.path.parent) as spool, _sink(spool, target) as (sink, private):
        reading = read_rows(source, drafter, sink, limit=limit, on_bad=on_bad, progress=progress)
        settle(reading, on_bad_row)
        timeline = lay_out(spool, timing, drafter.choices.turns)
        prompts = private.publish(target.prompts) if private and target.prompts else None
        header = _header(reading, spool, timeline, target, prompts)
        trace = write_lines(target.path, trace_lines(header, spool, timeline))
        warnings = (*_warnings(reading, timeline), *thin_strata(spool, timeline))
    return Imported(trace, prompts, header, reading, warnings)


def import_record(reading: Reading) -> dict[str, JsonValue]:
    """What a trace's header says of the reading: the source, every count, and the first bad rows."""
    bad: list[JsonValue] = [
        {"where": place(row), "field": row.field, "reason": row.reason}
        for row in reading.tally.bad_rows[:BAD_ROWS_IN_HEADER]
    ]
    return {
        "reader": reading.source.format.name,
        "file": reading.source.path.name,
        "sha256": reading.source.sha256,
        "bytes": reading.source.size,
        "whole_file": reading.complete,
        **reading.tally.document(),
        "bad_rows": bad,
        "requests_made": reading.requests,
        "remarks": dict(reading.remarks),
    }


@contextmanager
def _sink(spool: Spool, target: Target) -> Generator[tuple[Sink, PrivateSink | None]]:
    if target.key is None:
        yield spool, None
        return
    with PrivateSink(spool, target.key, target.path.parent) as private:
        yield private, private


def _check_target(source: Source, drafter: Drafter, target: Target) -> None:
    for path in (target.path, target.prompts):
        if path is not None and path.exists() and path.samefile(source.path):
            raise DomainError.of("output", "it is the source itself", "give another file with --output")
    if (target.key is None) != (target.prompts is None):
        raise DomainError.of("prompts", "privacy mode needs a key and a file for the prompts", "give both")
    if target.key is not None and drafter.choices.turns is Turns.OWN:
        message = "turns with an arm's own answers need their messages in the trace, and privacy mode takes them out"
        raise DomainError.of("turns", message, "use --turns first or recorded, or leave privacy mode")


def _header(reading: Reading, spool: Spool, timeline: Timeline, target: Target, prompts: Written | None) -> TraceHeader:
    source, tally = reading.source, reading.tally
    record = import_record(reading)
    record |= {"options": target.options, "rows_left_over": timeline.left_over}
    if target.key is not None and prompts is not None:
        record["privacy"] = {"key_id": target.key.key_id, "prompts_sha256": prompts.digest}
    return TraceHeader(
        name=target.name,
        description=target.description or f"{tally.kept} rows of a {source.format.title}",
        source=f"{source.format.title}: {source.path.name}, sha256 {source.sha256}",
        content_valid=spool.valid,
        warmup_requests=warmup_requests(timeline),
        loads=loads_of(timeline),
        differs=target.differs() or None,
        record=record,
        privacy=KEYED_HASH if target.key else None,
    )


def _warnings(reading: Reading, timeline: Timeline) -> Iterator[str]:
    yield from (f"{count} rows: {text}" for text, count in reading.remarks.items())
    for text, count in reading.tally.notes.items():
        yield f"{text} ({count}, first at line {reading.tally.note_lines[text]})"
    if timeline.left_over:
        yield f"{timeline.left_over} rows belong to no load point"
    if reading.tally.skipped:
        yield f"{reading.tally.skipped} of {reading.tally.read} rows were skipped"
