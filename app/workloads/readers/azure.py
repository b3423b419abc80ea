"""Azure LLM inference traces, CSV: when a request came and how long it and its answer were. No content.

Times have seven decimals (100 ns), in later releases six and a zone.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from app.workloads.readers.fields import cell_count, text
from app.workloads.readers.format import Format
from app.workloads.readers.tables import read_table, write_table
from app.workloads.readers.times import clock_ns
from app.workloads.record import Item, Record, Row, RowRefused

TIMESTAMP = "TIMESTAMP"
COLUMNS = (TIMESTAMP, "ContextTokens", "GeneratedTokens")


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request of the file. A file's times all have a zone or all have none."""
    zoned: bool | None = None

    def parse(row: Row, line: int) -> Record:
        nonlocal zoned
        arrival_ns, has_zone = clock_ns(text(row, TIMESTAMP), TIMESTAMP)
        zoned = has_zone if zoned is None else zoned
        if has_zone is not zoned:
            raise RowRefused(TIMESTAMP, "has a zone where the rows before have none, or none where they have one")
        return Record(
            line,
            row,
            arrival_ns=arrival_ns,
            input_tokens=cell_count(row, "ContextTokens"),
            output_tokens=cell_count(row, "GeneratedTokens"),
        )

    return read_table(file, COLUMNS, parse)


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The rows with the source's header and line ends (CR LF)."""
    write_table(rows, file, COLUMNS)


FORMAT = Format("azure", "Azure LLM inference trace, CSV", read, write)
