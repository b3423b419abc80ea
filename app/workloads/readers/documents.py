"""JSON documents inside a source file, read as strictly as traces are."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from pydantic import JsonValue

from app.domain.strict_json import Flaw, loads_strict
from app.workloads.readers.lines import Line, read_lines
from app.workloads.record import BadRow, Item, Record, Row, RowRefused

Parse = Callable[[Row, int], Record]
"""One row and its line → a record; raises ``RowRefused``."""


def read_json_lines(file: BinaryIO, parse: Parse) -> Iterator[Item]:
    """One JSON object a line."""
    for line in read_lines(file):
        yield parsed(line, parse) if isinstance(line, Line) else line


def parsed(line: Line, parse: Parse) -> Record | BadRow:
    """The record of one JSON object, or why there is none."""
    try:
        return parse(decode_object(line.content), line.number)
    except RowRefused as refusal:
        return BadRow(line.number, refusal.field, refusal.reason)


def decode_object(content: bytes) -> Row:
    """The JSON object in ``content``; raises ``RowRefused``."""
    try:
        value = loads_strict(content)
    except Flaw as flaw:
        raise RowRefused("row", str(flaw)[:200]) from None
    if not isinstance(value, dict):
        raise RowRefused("row", "is not a JSON object")
    return value


def write_json_lines(rows: Iterable[Row], file: BinaryIO) -> None:
    """One JSON object a line, keys in the order of the row."""
    file.writelines(encode(row) + b"\n" for row in rows)


def encode(value: JsonValue | Row) -> bytes:
    """One JSON value on one line, as UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
