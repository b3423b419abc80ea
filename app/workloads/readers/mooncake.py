"""Mooncake traces, JSON Lines: times, lengths and one hash id per block of the prompt (512 tokens in the original).

Also read are the further fields that replay tools write: ``text_input``, ``messages`` or ``payload`` (then there is
content), ``tools``, ``delay`` (ms after the previous answer) and ``session_id``.
"""

from collections.abc import Iterator
from typing import BinaryIO

from app.workloads.readers.bodies import Body, parse_body
from app.workloads.readers.documents import read_json_lines, write_json_lines
from app.workloads.readers.fields import optional_count, optional_text, whole_numbers
from app.workloads.readers.format import Format
from app.workloads.readers.times import milliseconds_ns
from app.workloads.record import Item, Record, Row, RowRefused

BLOCK_TOKENS = 512
_CONTENT = ("payload", "messages", "text_input")


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request of the file."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A request; it says how long the prompt was, or what it was."""
    body = _body(row)
    input_tokens = optional_count(row, "input_length")
    if input_tokens is None and not body:
        raise RowRefused("input_length", "is missing, and there is no text_input, messages or payload either")
    return Record(
        line,
        row,
        arrival_ns=_optional_ns(row, "timestamp"),
        input_tokens=input_tokens,
        output_tokens=optional_count(row, "output_length"),
        hash_ids=whole_numbers(row, "hash_ids"),
        session=optional_text(row, "session_id"),
        think_ns=_optional_ns(row, "delay"),
        **body,
    )


FORMAT = Format("mooncake", "Mooncake trace, JSON Lines", read, write_json_lines)


def _body(row: Row) -> Body:
    given = [name for name in _CONTENT if row.get(name) is not None]
    if not given:
        return Body()
    if len(given) > 1:
        raise RowRefused(given[1], f"is given beside {given[0]}; a row has one content")
    content = row[given[0]]
    if given[0] == "payload":
        if not isinstance(content, dict):
            raise RowRefused("payload", "is not a JSON object")
        return parse_body(content)
    renamed: Row = {"messages": content} if given[0] == "messages" else {"prompt": content}
    return parse_body(renamed | {name: row[name] for name in ("tools",) if name in row})


def _optional_ns(row: Row, name: str) -> int | None:
    return None if row.get(name) is None else milliseconds_ns(row[name], name)
