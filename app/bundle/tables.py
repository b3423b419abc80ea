"""Observations and series as Arrow tables and back, and the digest of what a table says.

The digest is over values, column by column, so that it does not depend on how Parquet encodes them.
"""

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
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
TOKENS_SHARED: Final = 1 << 18
"""As many as the largest vocabularies have."""
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
    columns = (_COMPACT.get(name, _values)(_one(table.column(name))) for name in FIELDS)
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


def _canonical(values: Any) -> Iterator[bytes]:
    """Little-endian bytes of an array, whatever its offsets, padding and the bytes under nulls."""
    yield len(values).to_bytes(8, "little")
    yield np.asarray(values.is_valid()).astype(np.uint8).tobytes()
    if pa.types.is_list(values.type):
        yield _lengths(values.value_lengths())
        yield from _canonical(values.flatten())
    elif pa.types.is_string(values.type):
        yield from _texts(values)
    else:
        kind = "<f8" if pa.types.is_floating(values.type) else "<i8"
        yield np.asarray(values.fill_null(0)).astype(kind).tobytes()


def _lengths(values: Any) -> bytes:
    return np.asarray(values.fill_null(0)).astype("<i8").tobytes()


def _texts(values: Any) -> Iterator[bytes]:
    """Lengths, then the texts one after the other, as the array's buffers have them."""
    plain = values.fill_null("")
    offsets = np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1, plain.offset * 4)
    data = plain.buffers()[2]
    yield np.diff(offsets).astype("<i8").tobytes()
    yield b"" if data is None else bytes(memoryview(data)[offsets[0] : offsets[-1]])


def _times(lists: Any) -> Sequence[Any]:
    """A list of times as one block of memory each: as Python's integers they would be half of an observation."""
    content = np.asarray(lists.flatten()).astype(np.int64).tobytes()
    ends = np.cumsum(np.asarray(lists.value_lengths().fill_null(0))) * 8
    return [_int64s(content[start:end]) for start, end in pairwise((0, *ends.tolist()))]


def _int64s(content: bytes) -> "array[int]":
    made = array("q")
    made.frombytes(content)
    return made


def _tokens(lists: Any) -> Sequence[Any]:
    """Lists of token ids whose integers are shared, since the same ones come again and again."""
    return [tuple(map(_shared, ids)) for ids in _values(lists)]


def _values(column: Any) -> Sequence[Any]:
    """A column's Python values; lists by way of one flat list, which is many times faster than value by value."""
    one = _one(column)
    if not pa.types.is_list(one.type):
        return one.to_pylist()
    flat = one.flatten().to_numpy(zero_copy_only=False).tolist()
    ends = np.cumsum(np.asarray(one.value_lengths().fill_null(0))).tolist()
    whole = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if not one.null_count:
        return whole
    return [v if there else None for v, there in zip(whole, one.is_valid().to_pylist(), strict=True)]


@lru_cache(maxsize=TOKENS_SHARED)
def _shared(token: int) -> int:
    return token


_COMPACT: Final[dict[str, Callable[[Any], Sequence[Any]]]] = {"chunk_ns": _times, "token_ids": _tokens}


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
