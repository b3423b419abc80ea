"""Observations and series as Arrow tables and back, and the digest of what a table says.

The digest is over values, column by column, so that it does not depend on how Parquet encodes them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from app.domain.canonical import canonical_json
from app.domain.observation import RequestObservation
from app.domain.series import Series
from app.evidence.rows import FIELDS, Row, observation_of

Table = Any
"""A pyarrow table or batch; the library has no types of its own."""

RUN: Final = "run"
_TEXTS: Final = ("request_id", "outcome", "text", "reasoning", "tool_calls", "finish_reason", "error")
_INTEGERS: Final = ("chunk_ns", "chunk_tokens", "token_ids", "acceptance_histogram", "per_step_accepted")
_LISTS: Final = {name: pa.list_(pa.int64()) for name in (*_INTEGERS, "per_step_drafted")} | {
    "logprobs": pa.list_(pa.float64())
}
OBSERVATION_SCHEMA: Final = pa.schema(
    [
        pa.field(RUN, pa.int32()),
        *(pa.field(name, _LISTS.get(name, pa.string() if name in _TEXTS else pa.int64())) for name in FIELDS),
    ]
)
SERIES_SCHEMA: Final = pa.schema(
    [
        pa.field(RUN, pa.int32()),
        pa.field("name", pa.string()),
        pa.field("labels", pa.string()),
        pa.field("at_ns", pa.list_(pa.int64())),
        pa.field("values", pa.list_(pa.float64())),
    ]
)


def observation_table(run: int, rows: Sequence[Row]) -> Table:
    """Rows of ``FIELDS``; text may be bytes."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in FIELDS)
    arrays = [pa.array([run] * len(rows), pa.int32())]
    arrays += [pa.array(c, OBSERVATION_SCHEMA.field(n).type) for n, c in zip(FIELDS, columns, strict=True)]
    return pa.table(arrays, schema=OBSERVATION_SCHEMA)


def observations_of(table: Table) -> Iterator[RequestObservation]:
    """The observations that a table was made of, in its order."""
    columns = (_values(table.column(name)) for name in FIELDS)
    return map(observation_of, zip(*columns, strict=True))


def series_table(run: int, series: Iterable[Series]) -> Table:
    """One row for each quantity."""
    rows = [(run, s.name, canonical_json({**s.labels}).decode(), s.at_ns, s.values) for s in series]
    columns = zip(*rows, strict=True) if rows else ([] for _ in SERIES_SCHEMA)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SERIES_SCHEMA, strict=True)]
    return pa.table(arrays, schema=SERIES_SCHEMA)


def series_of(table: Table) -> Iterator[Series]:
    """The series that a table was made of. Raises ``ValueError`` where one is none."""
    columns = (_values(table.column(name)) for name in ("name", "labels", "at_ns", "values"))
    for name, labels, at_ns, values in zip(*columns, strict=True):
        yield Series(name=name, labels=json.loads(labels), at_ns=tuple(at_ns), values=tuple(values))


def request_ids(table: Table) -> list[str]:
    """Whose observations a table has."""
    return table.column("request_id").to_pylist()


def table_digest(table: Table) -> bytes:
    """The sha256 over each column but the run's number: its name, which values are null, lengths and values."""
    found = hashlib.sha256()
    for name in table.column_names:
        if name != RUN:
            found.update(name.encode() + b"\x00")
            for part in _canonical(_one(table.column(name))):
                found.update(part)
    return found.digest()


def _canonical(array: Any) -> Iterator[bytes]:
    """Little-endian bytes of an array, whatever its offsets, padding and the bytes under nulls."""
    yield len(array).to_bytes(8, "little")
    yield np.asarray(array.is_valid()).astype(np.uint8).tobytes()
    if pa.types.is_list(array.type):
        yield _lengths(array.value_lengths())
        yield from _canonical(array.flatten())
    elif pa.types.is_string(array.type):
        yield from _texts(array)
    else:
        kind = "<f8" if pa.types.is_floating(array.type) else "<i8"
        yield np.asarray(array.fill_null(0)).astype(kind).tobytes()


def _lengths(array: Any) -> bytes:
    return np.asarray(array.fill_null(0)).astype("<i8").tobytes()


def _texts(array: Any) -> Iterator[bytes]:
    """Lengths, then the texts one after the other, as the array's buffers have them."""
    plain = array.fill_null("")
    offsets = np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1, plain.offset * 4)
    data = plain.buffers()[2]
    yield np.diff(offsets).astype("<i8").tobytes()
    yield b"" if data is None else bytes(memoryview(data)[offsets[0] : offsets[-1]])


def _values(column: Any) -> Sequence[Any]:
    """A column's Python values; lists by way of one flat list, which is many times faster than value by value."""
    array = _one(column)
    if not pa.types.is_list(array.type):
        return array.to_pylist()
    flat = array.flatten().to_numpy(zero_copy_only=False).tolist()
    ends = np.cumsum(np.asarray(array.value_lengths().fill_null(0))).tolist()
    whole = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if not array.null_count:
        return whole
    return [v if there else None for v, there in zip(whole, array.is_valid().to_pylist(), strict=True)]


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
