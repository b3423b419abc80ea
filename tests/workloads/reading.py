"""Reads bytes by a format's name, and gives rows back as bytes."""

import io
from collections.abc import Iterable

from app.workloads.readers.registry import FORMATS
from app.workloads.record import BadRow, Item, Note, Record, Row


def items(name: str, content: bytes) -> list[Item]:
    """Everything that the reader says of the file."""
    return list(FORMATS[name].read(io.BytesIO(content)))


def records(name: str, content: bytes) -> list[Record]:
    """The good rows."""
    return [item for item in items(name, content) if isinstance(item, Record)]


def bad_rows(name: str, content: bytes) -> list[BadRow]:
    """The bad rows."""
    return [item for item in items(name, content) if isinstance(item, BadRow)]


def notes(name: str, content: bytes) -> list[Note]:
    """The remarks."""
    return [item for item in items(name, content) if isinstance(item, Note)]


def written(name: str, rows: Iterable[Row]) -> bytes:
    """The rows in the format."""
    file = io.BytesIO()
    FORMATS[name].write(rows, file)
    return file.getvalue()
