"""BurstGPT, CSV, first and second form (with ``Session ID`` and ``Elapsed time``): times and lengths. No content."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from app.workloads.readers.fields import cell_count, cell_decimal, labels, optional_text
from app.workloads.readers.format import Format
from app.workloads.readers.tables import read_table, write_table
from app.workloads.readers.times import seconds_ns
from app.workloads.record import Item, Record, Row

TIMESTAMP = "Timestamp"
REQUIRED = (TIMESTAMP, "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
COLUMNS = (TIMESTAMP, "Session ID", "Elapsed time", *REQUIRED[1:])


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request of the file, failed ones (no response tokens) too."""
    return read_table(file, REQUIRED, parse)


def parse(row: Row, line: int) -> Record:
    """A request; ``Elapsed time`` says how the recorded service answered, so it stays in the row."""
    return Record(
        line,
        row,
        arrival_ns=seconds_ns(cell_decimal(row, TIMESTAMP), TIMESTAMP),
        input_tokens=cell_count(row, "Request tokens"),
        output_tokens=cell_count(row, "Response tokens"),
        labels=labels(row, {"Log Type": "task", "Model": "model"}),
        session=optional_text(row, "Session ID"),
    )


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The rows with the header of the form that they have."""
    write_table(rows, file, COLUMNS)


FORMAT = Format("burstgpt", "BurstGPT trace, CSV", read, write)
