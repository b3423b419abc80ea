"""What the client process leaves behind: the raw reads as zstd Parquet, the stamps as JSON.

Raw bytes are evidence: every observation can be derived from these two files again.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worker.replay.exchange import Ending, Exchange, Read

READS_NAME = "reads.parquet"
STAMPS_NAME = "stamps.json"

_READS_SCHEMA = pa.schema([("request_id", pa.string()), ("at_ns", pa.int64()), ("bytes", pa.binary())])


@dataclass(frozen=True, slots=True)
class Recording:
    """A finished replay. ``started_monotonic_ns`` is offset zero on the host's monotonic clock."""

    started_monotonic_ns: int
    priority: str
    exchanges: tuple[Exchange, ...]


def prepare() -> None:
    """Pay once for what the first table costs: two seconds on a slow host, in which pyarrow looks for pandas."""
    _write_reads((), BytesIO())


def write_recording(directory: Path, recording: Recording) -> None:
    """The stamps are written last: where they exist, the recording is whole."""
    _write_reads(recording.exchanges, directory / READS_NAME)
    stamps = {
        "started_monotonic_ns": recording.started_monotonic_ns,
        "priority": recording.priority,
        "exchanges": [[e.request_id, e.due_ns, e.ending, e.sent_ns, e.end_ns, e.error] for e in recording.exchanges],
    }
    (directory / STAMPS_NAME).write_text(json.dumps(stamps))


def _write_reads(exchanges: tuple[Exchange, ...], where: Path | BytesIO) -> None:
    reads = [(e.request_id, at_ns, chunk) for e in exchanges for at_ns, chunk in e.reads]
    columns = list(zip(*reads, strict=True)) or [(), (), ()]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _READS_SCHEMA, strict=True)], schema=_READS_SCHEMA)
    pq.write_table(table, where, compression="zstd")


def read_recording(directory: Path) -> Recording:
    """The inverse of ``write_recording``; raises ``OSError`` or ``ValueError`` where files are missing or damaged."""
    reads: defaultdict[str, list[Read]] = defaultdict(list)
    table = pq.read_table(directory / READS_NAME, schema=_READS_SCHEMA)
    for request_id, at_ns, chunk in zip(*(column.to_pylist() for column in table.columns), strict=True):
        reads[request_id].append((at_ns, chunk))
    stamps: dict[str, Any] = json.loads((directory / STAMPS_NAME).read_text())
    exchanges = tuple(
        Exchange(request_id, due_ns, Ending(ending), sent_ns, end_ns, error, tuple(reads[request_id]))
        for request_id, due_ns, ending, sent_ns, end_ns, error in stamps["exchanges"]
    )
    return Recording(stamps["started_monotonic_ns"], stamps["priority"], exchanges)
