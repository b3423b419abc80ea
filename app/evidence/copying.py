"""Rows in the binary format of ``COPY``: what is written is what Postgres stores, so that neither side converts text.

Arrays are packed for many rows at once; value by value they would cost more than all the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from struct import Struct
from typing import Any, Final
from uuid import UUID

import numpy as np

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_BIGINT: Final = Struct(">iq").pack
_LENGTH: Final = Struct(">i").pack
_COUNT: Final = Struct(">h").pack
_ARRAY: Final = Struct(">iiiiii").pack
_INT8, _FLOAT8 = 20, 701
"""The catalogue's numbers of the element types."""
_ELEMENT_BYTES: Final = 12
_EMPTY_BYTES: Final = 12

Values = Sequence[Any]


def binary_rows(columns: Iterable[Iterable[bytes]]) -> bytes:
    """Rows of fields that are packed already, given column by column."""
    cells = [list(column) for column in columns]
    count = _COUNT(len(cells))
    return b"".join(chain.from_iterable((count, *row) for row in zip(*cells, strict=True)))


def bigints(values: Iterable[int | None]) -> Iterator[bytes]:
    """A column of bigint."""
    return (_NULL if value is None else _BIGINT(8, value) for value in values)


def raw(values: Iterable[bytes | None]) -> Iterator[bytes]:
    """A column of bytea, of text in UTF-8 or of whatever else goes as its bytes."""
    return (_NULL if value is None else _LENGTH(len(value)) + value for value in values)


def texts(values: Iterable[str | None]) -> Iterator[bytes]:
    """A column of text."""
    return raw(None if value is None else value.encode() for value in values)


def documents(values: Iterable[bytes]) -> Iterator[bytes]:
    """A column of jsonb, by its first and only binary version."""
    return raw(b"\x01" + value for value in values)


def uuids(values: Iterable[UUID]) -> Iterator[bytes]:
    """A column of uuid."""
    return raw(value.bytes for value in values)


def bigint_arrays(values: Sequence[Values | None]) -> Iterator[bytes]:
    """A column of bigint[]."""
    return _arrays(values, _INT8, np.dtype(np.int64))


def float_arrays(values: Sequence[Values | None]) -> Iterator[bytes]:
    """A column of double precision[]."""
    return _arrays(values, _FLOAT8, np.dtype(np.float64))


def _arrays(values: Sequence[Values | None], oid: int, kind: "np.dtype[Any]") -> Iterator[bytes]:
    lengths = [0 if array is None else len(array) for array in values]
    flat = chain.from_iterable(array for array in values if array is not None)
    elements = np.empty(sum(lengths), dtype=[("length", ">i4"), ("value", kind.newbyteorder(">"))])
    elements["length"] = kind.itemsize
    elements["value"] = np.fromiter(flat, kind, len(elements))
    packed, places = elements.tobytes(), pairwise(accumulate(lengths, initial=0))
    for array, (start, end) in zip(values, places, strict=True):
        part = packed[start * _ELEMENT_BYTES : end * _ELEMENT_BYTES]
        yield _NULL if array is None else _array(part, end - start, oid)


def _array(elements: bytes, length: int, oid: int) -> bytes:
    if not length:
        return _LENGTH(_EMPTY_BYTES) + _ARRAY(0, 0, oid, 0, 0, 0)[:_EMPTY_BYTES]
    return _ARRAY(_EMPTY_BYTES + 8 + len(elements), 1, 0, oid, length, 1) + elements
