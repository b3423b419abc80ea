"""ShareGPT: one JSON array of conversations; also the same objects one a line. No times, no token lengths."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from app.domain.conversation import Message
from app.workloads.readers.conversations import ASSISTANT, USER, first_answer, message, need_user
from app.workloads.readers.documents import encode, parsed, read_json_lines
from app.workloads.readers.elements import read_elements
from app.workloads.readers.fields import objects
from app.workloads.readers.format import Format
from app.workloads.readers.lines import BYTE_ORDER_MARK, Line
from app.workloads.record import Item, Record, Row, RowRefused

CONVERSATIONS = "conversations"
_ROLES = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "chatgpt": ASSISTANT, "bing": ASSISTANT,
    "bard": ASSISTANT, "model": ASSISTANT, "system": "system",
}  # fmt: skip
_SPEAKER_KEYS = ("from", "role")
_TEXT_KEYS = ("value", "content")
_PEEK_BYTES = 1 << 16


def read(file: BinaryIO) -> Iterator[Item]:
    """Every conversation of the file."""
    if not _is_array(file):
        yield from read_json_lines(file, parse)
        return
    for element in read_elements(file):
        yield parsed(element, parse) if isinstance(element, Line) else element


def parse(row: Row, line: int) -> Record:
    """A conversation; the recorded answer to its first question is the reference."""
    messages = tuple(_message(entry) for entry in objects(row, CONVERSATIONS))
    need_user(messages, CONVERSATIONS)
    return Record(line, row, messages=messages, conversation=True, reference=first_answer(messages))


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The conversations as one array, an element a line."""
    file.write(b"[")
    file.writelines((b",\n" if number else b"\n") + encode(row) for number, row in enumerate(rows))
    file.write(b"\n]\n")


FORMAT = Format("sharegpt", "ShareGPT conversations, JSON", read, write)


def _message(entry: Row) -> Message:
    speaker = next((entry[key] for key in _SPEAKER_KEYS if key in entry), None)
    content = next((entry[key] for key in _TEXT_KEYS if key in entry), None)
    if not isinstance(content, str):
        raise RowRefused(CONVERSATIONS, "has a message whose value is not text")
    if not isinstance(speaker, str) or speaker not in _ROLES:
        raise RowRefused(CONVERSATIONS, "has a speaker that is not human, gpt or system")
    return message({"role": _ROLES[speaker], "content": content}, CONVERSATIONS)


def _is_array(file: BinaryIO) -> bool:
    head = file.read(_PEEK_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip()
    file.seek(0)
    return head.startswith(b"[")
