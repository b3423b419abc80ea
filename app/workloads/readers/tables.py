"""CSV files: a header and a row a line. Cells stay text in the row, so that writing gives them back exactly."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from itertools import chain
from typing import BinaryIO

from app.domain.errors import DomainError
from app.workloads.readers.lines import Line, read_lines
from app.workloads.record import BadRow, Item, Record, Row, RowRefused

Parse = Callable[[Row, int], Record]


def read_table(file: BinaryIO, columns: Sequence[str], parse: Parse) -> Iterator[Item]:
    """Every row of a table that has at least ``columns``; raises ``DomainError`` where its header says otherwise."""
    header: list[str] | None = None
    for line in read_lines(file):
        if not isinstance(line, Line):
            yield line
        elif header is None:
            header = _header(line.content, columns)
        else:
            yield _item(line, header, parse)


def write_table(rows: Iterable[Row], file: BinaryIO, columns: Sequence[str]) -> None:
    """A header and the rows. The first row decides the columns: known ones in ``columns``' order, then its others."""
    remaining = iter(rows)
    first = next(remaining, None)
    names = list(columns) if first is None else _ordered(first, columns)
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, names, restval="", extrasaction="raise")
    writer.writeheader()
    writer.writerows(chain([] if first is None else [first], remaining))
    text.flush()
    text.detach()


def _ordered(row: Row, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in row] + [name for name in row if name not in columns]


def _header(content: bytes, columns: Sequence[str]) -> list[str]:
    names = _cells(content) or []
    missing = [name for name in columns if name not in names]
    if missing or len(set(names)) < len(names):
        raise DomainError.of(
            "header",
            f"the first line must name the columns {', '.join(columns)}, each once",
            "give the file with its header, or name its format with --format",
        )
    return names


def _item(line: Line, header: list[str], parse: Parse) -> Record | BadRow:
    cells = _cells(line.content)
    if cells is None:
        return BadRow(line.number, "row", "is not valid CSV in UTF-8")
    if len(cells) != len(header):
        return BadRow(line.number, "row", f"does not have the header's {len(header)} cells")
    try:
        return parse(dict(zip(header, cells, strict=True)), line.number)
    except RowRefused as refusal:
        return BadRow(line.number, refusal.field, refusal.reason)


def _cells(content: bytes) -> list[str] | None:
    try:
        return next(csv.reader([content.decode()], strict=True))
    except (csv.Error, StopIteration, UnicodeDecodeError):
        return None
