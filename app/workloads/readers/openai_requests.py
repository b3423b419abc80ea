"""OpenAI request bodies as they were sent, one a line, each with a ``timestamp``: times and content."""

from collections.abc import Iterator
from typing import BinaryIO

from app.workloads.readers.bodies import parse_body
from app.workloads.readers.documents import read_json_lines, write_json_lines
from app.workloads.readers.fields import required
from app.workloads.readers.format import Format
from app.workloads.readers.times import moment_ns
from app.workloads.record import Item, Record, Row


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request of the file."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A body with ``timestamp`` beside its own fields: seconds as a number, or an ISO time."""
    return Record(line, row, arrival_ns=moment_ns(required(row, "timestamp"), "timestamp"), **parse_body(row))


FORMAT = Format("openai", "OpenAI request bodies with a timestamp, JSON Lines", read, write_json_lines)
