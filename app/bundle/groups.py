"""Values that stay in a Parquet file until they are looked at: a report reads each run many times, a few at a time.

Only the row groups used last are in memory, so that an experiment of any size can be analysed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, overload

import pyarrow.parquet as pq

from app.bundle.tables import RUN, Table

ROWS_A_GROUP: Final = 2048
GROUP_BYTES_MAX: Final = 1 << 30
"""Of one row group unpacked; ours have a hundredth of that."""

T = TypeVar("T")


class GroupRefused(ValueError):
    """A row group that none of our tables has: too large, or of several runs."""


class GroupedFile(Generic[T]):
    """A Parquet file of ours, whose row groups become values by ``decode``; at most ``kept`` rows stay decoded."""

    def __init__(self, path: Path, schema: Any, decode: Callable[[Table], Iterable[T]], kept: int) -> None:
        self._file = pq.ParquetFile(path, memory_map=False)
        self._schema, self._decode, self._kept = schema, decode, kept
        self._decoded: OrderedDict[int, tuple[T, ...]] = OrderedDict()
        if not self._file.schema_arrow.equals(schema):
            raise GroupRefused(f"its columns are not {', '.join(schema.names)}")

    def tables(self) -> Iterator[tuple[int, Table]]:
        """Each row group with the number of its run, in order. Raises ``GroupRefused``."""
        for number in range(self._file.num_row_groups):
            table = self._table(number)
            yield _run_of(number, table), table

    def places(self) -> Iterator[tuple[int, int]]:
        """The run of each row group and how many rows it has, without reading them. Raises ``GroupRefused``."""
        for number in range(self._file.num_row_groups):
            yield _run_of(number, self._file.read_row_group(number, columns=[RUN])), self._told(number).num_rows

    def group(self, number: int) -> tuple[T, ...]:
        """The values of one row group."""
        if number not in self._decoded:
            self._decoded[number] = tuple(self._decode(self._table(number)))
            held = sum(map(len, self._decoded.values()))
            while held > self._kept and len(self._decoded) > 1:
                held -= len(self._decoded.popitem(last=False)[1])
        self._decoded.move_to_end(number)
        return self._decoded[number]

    def _table(self, number: int) -> Table:
        self._told(number)
        return self._file.read_row_group(number)

    def _told(self, number: int) -> Any:
        told = self._file.metadata.row_group(number)
        if told.num_rows > ROWS_A_GROUP or told.total_byte_size > GROUP_BYTES_MAX:
            raise GroupRefused(f"row group {number} has {told.num_rows} rows and {told.total_byte_size} bytes")
        return told


def _run_of(number: int, table: Table) -> int:
    runs = set(table.column(RUN).to_pylist())
    if len(runs) != 1 or None in runs:
        raise GroupRefused(f"row group {number} has rows of {len(runs)} runs")
    return runs.pop()


class Stored(Sequence[T]):
    """The values of some row groups as a sequence; each look decodes what is not in memory."""

    def __init__(self, file: GroupedFile[T], groups: Sequence[int], length: int) -> None:
        self._file, self._groups, self._length = file, tuple(groups), length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for number in self._groups:
            yield from self._file.group(number)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return tuple(self)[index]
