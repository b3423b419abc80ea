"""What the client process leaves behind: the raw reads as zstd Parquet, the stamps as JSON.

Raw bytes are evidence: every observation can be derived from these two files again. Both are written and read
in portions, so that no replay is too long for memory.
"""

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worker.replay.exchange import Ending, Exchange, Read
from worker.replay.reads import ReadLog

READS_NAME = "reads.parquet"
STAMPS_NAME = "stamps.json"

_READS_SCHEMA = pa.schema([("request_id", pa.string()), ("at_ns", pa.int64()), ("bytes", pa.binary())])
_READS_A_PORTION = 32_768


@dataclass(frozen=True, slots=True)
class Stamps:
    """A finished replay without its reads. ``started_monotonic_ns`` is offset zero on the host's monotonic clock."""

    started_monotonic_ns: int
    priority: str
    """What the host granted the client: ``real-time``, or ``nice -10`` to ``nice 0``."""
    stamped_by: str
    """Who says when bytes arrived: the ``kernel``, or the ``client`` when it has read them."""
    cpu_ns: int
    """Processor time of the replay itself, without reading the plan and writing the recording."""
    spun_ns: int
    """The part of it that was spent waiting for exact moments."""
    peak_rss_bytes: int
    """Of the client while it replayed."""
    exchanges: tuple[Exchange, ...]


def prepare() -> None:
    """Pay once for what the first table costs: two seconds on a slow host, in which pyarrow looks for pandas."""
    with pq.ParquetWriter(BytesIO(), _READS_SCHEMA, compression="zstd") as writer:
        writer.write_table(_table(("",), array("i"), array("q"), [], origin_ns=0))


def write_recording(directory: Path, stamps: Stamps, log: ReadLog) -> None:
    """The stamps are written last: where they exist, the recording is whole."""
    request_ids = tuple(exchange.request_id for exchange in stamps.exchanges)
    with pq.ParquetWriter(directory / READS_NAME, _READS_SCHEMA, compression="zstd") as writer:
        for portion in log.portions(_READS_A_PORTION):
            writer.write_table(_table(request_ids, *portion, origin_ns=stamps.started_monotonic_ns))
    document = {
        "started_monotonic_ns": stamps.started_monotonic_ns,
        "priority": stamps.priority,
        "stamped_by": stamps.stamped_by,
        "cpu_ns": stamps.cpu_ns,
        "spun_ns": stamps.spun_ns,
        "peak_rss_bytes": stamps.peak_rss_bytes,
        "exchanges": [[e.request_id, e.due_ns, e.ending, e.sent_ns, e.end_ns, e.error] for e in stamps.exchanges],
    }
    (directory / STAMPS_NAME).write_text(json.dumps(document))


def _table(
    request_ids: Sequence[str], owners: "array[int]", at_ns: "array[int]", chunks: list[bytes], *, origin_ns: int
) -> Any:
    owner_of_read = pa.array(np.frombuffer(owners, np.int32))
    names = pa.DictionaryArray.from_arrays(owner_of_read, pa.array(request_ids, pa.string())).cast(pa.string())
    columns = [names, pa.array(np.frombuffer(at_ns, np.int64) - origin_ns), pa.array(chunks, pa.binary())]
    return pa.table(columns, schema=_READS_SCHEMA)


def read_stamps(directory: Path) -> Stamps:
    """Raises ``OSError`` or ``ValueError`` where the file is missing or damaged."""
    document: dict[str, Any] = json.loads((directory / STAMPS_NAME).read_text())
    exchanges = tuple(
        Exchange(request_id, due_ns, Ending(ending), sent_ns, end_ns, error)
        for request_id, due_ns, ending, sent_ns, end_ns, error in document.pop("exchanges")
    )
    return Stamps(exchanges=exchanges, **document)


def iterate_reads(directory: Path) -> Iterator[tuple[str, Read]]:
    """Request and read, in the order of arrival; raises as ``read_stamps`` does."""
    with pq.ParquetFile(directory / READS_NAME) as file:
        for portion in file.iter_batches(_READS_A_PORTION):
            for request_id, at_ns, chunk in zip(*(column.to_pylist() for column in portion.columns), strict=True):
                yield request_id, (at_ns, chunk)
