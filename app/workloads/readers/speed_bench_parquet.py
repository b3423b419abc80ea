"""SPEED-Bench as Parquet, a row group at a time; a damaged row group loses its own rows only."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.errors import DomainError
from app.domain.strict_json import Flaw, checked
from app.workloads.readers.format import Format
from app.workloads.readers.speed_bench import parse
from app.workloads.record import BadRow, Item, Record, Row, RowRefused

BATCH_ROWS = 256
GROUP_ROWS = 1_000
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises for a file that is not what its footer says."""


def read(file: BinaryIO) -> Iterator[Item]:
    """Every row; ``line`` is its number. Raises ``DomainError`` where the file is not whole Parquet."""
    try:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
    except _DAMAGE as error:
        raise DomainError.of("file", "is not Parquet, or is cut short", "give the whole file") from error
    first = 1
    for group in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(group).num_rows
        yield from _group(parquet, group, first, rows)
        first += rows


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The rows as Parquet; the first thousand decide the columns' types."""
    remaining = iter(rows)
    group = list(islice(remaining, GROUP_ROWS))
    schema = pa.Table.from_pylist(group).schema
    with pq.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        while group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            group = list(islice(remaining, GROUP_ROWS))


FORMAT = Format("speed-bench-parquet", "SPEED-Bench, Parquet", read, write)


def _group(parquet: pq.ParquetFile, group: int, first: int, rows: int) -> Iterator[Item]:
    done = 0
    try:
        batches = parquet.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], use_threads=False)
        for row in chain.from_iterable(batch.to_pylist() for batch in batches):
            yield _item(cast("Row", row), first + done)
            done += 1
    except _DAMAGE:
        yield BadRow(first + done, "row group", "is damaged", first + rows - 1, rows=max(rows - done, 1))
        return
    if done < rows:
        reason = "has fewer rows than the file says"
        yield BadRow(first + done, "row group", reason, first + rows - 1, rows=rows - done)


def _item(row: Row, number: int) -> Record | BadRow:
    try:
        return parse(_plain(row), number)
    except RowRefused as refusal:
        return BadRow(number, refusal.field, refusal.reason)


def _plain(row: Row) -> Row:
    """The row, if JSON can hold it."""
    try:
        checked(row)
    except (Flaw, RecursionError) as error:
        raise RowRefused("row", str(error)[:200] or "is nested too deeply") from None
    return row
