"""Spec-Bench questions: JSON Lines of one or two user turns with a category and often a reference. No times."""

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import JsonValue

from app.domain.conversation import Message
from app.workloads.readers.conversations import USER
from app.workloads.readers.documents import read_json_lines, write_json_lines
from app.workloads.readers.fields import labels, required, texts
from app.workloads.readers.format import Format
from app.workloads.record import Item, Record, Row, RowRefused


def read(file: BinaryIO) -> Iterator[Item]:
    """Every question of the file."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A question; its turns are user messages, the answers between them are not in the source."""
    if not isinstance(required(row, "question_id"), int | str):
        raise RowRefused("question_id", "is neither a number nor text")
    return Record(
        line,
        row,
        messages=tuple(Message(role=USER, content=turn) for turn in texts(row, "turns")),
        conversation=True,
        reference=_first(row.get("reference")),
        labels=labels(row, {"category": "task"}),
    )


FORMAT = Format("spec-bench", "Spec-Bench questions, JSON Lines", read, write_json_lines)


def _first(reference: JsonValue) -> str | None:
    """The first turn's reference: one text, or a list by turns, whose entries may be lists of accepted answers."""
    while isinstance(reference, list):
        reference = reference[0] if reference else None
    if reference is None or reference == "":
        return None
    if not isinstance(reference, str):
        raise RowRefused("reference", "is neither text nor a list of texts")
    return reference
