"""SPEED-Bench as its own preparation writes it: JSON Lines with ``messages``, or Parquet with ``turns``. No times.

The published files hold placeholders instead of most texts. A placeholder is never taken for a prompt.
"""

from collections.abc import Iterator
from typing import BinaryIO

from app.domain.conversation import Message
from app.workloads.readers.conversations import USER, chat_messages, text_of
from app.workloads.readers.documents import read_json_lines, write_json_lines
from app.workloads.readers.fields import labels, texts
from app.workloads.readers.format import Format
from app.workloads.record import Item, Record, Row, RowRefused

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
_DIMENSIONS = {"category": "task", "sub_category": "subtask", "difficulty": "difficulty"}


def read(file: BinaryIO) -> Iterator[Item]:
    """Every question of the file."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A question with all its turns (vLLM's own reader takes only the first)."""
    messages = _turns(row)
    if any(PLACEHOLDER in text_of(message) for message in messages):
        raise RowRefused(
            "messages" if "messages" in row else "turns", "is a placeholder: run SPEED-Bench's preparation"
        )
    return Record(line, row, messages=messages, conversation=True, labels=labels(row, _DIMENSIONS))


FORMAT = Format("speed-bench", "SPEED-Bench prepared, JSON Lines", read, write_json_lines)


def _turns(row: Row) -> tuple[Message, ...]:
    if "messages" in row:
        return chat_messages(row, "messages")
    return tuple(Message(role=USER, content=turn) for turn in texts(row, "turns"))
