"""Our own trace format, JSON Lines: a header and then one request a line (``docs/trace.md``)."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from app.domain.errors import DomainError
from app.domain.manifest import field_problems
from app.domain.trace_header import TraceHeader
from app.domain.trace_request import TraceRequest
from app.workloads.readers.documents import decode_object, encode
from app.workloads.readers.format import Format
from app.workloads.readers.lines import Line, read_lines
from app.workloads.record import BadRow, Item, Record, Row, RowRefused

_ASKED = ("structured_outputs", "tools", "tool_choice", "chat_template_kwargs", "logprobs")


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request. Offsets count from the start of each load point. Raises ``DomainError`` without a header."""
    header: TraceHeader | None = None
    for line in read_lines(file):
        if not isinstance(line, Line):
            yield line
        elif header is None:
            header = read_header(line.content)
        else:
            yield _item(line)


def read_header(content: bytes) -> TraceHeader:
    """The first line; raises ``DomainError``."""
    try:
        return TraceHeader.model_validate(decode_object(content))
    except ValidationError as error:
        raise DomainError(*field_problems(error)) from error
    except RowRefused as refusal:
        raise DomainError.of("header", refusal.reason, "the first line must be a trace's header") from refusal


def parse(row: Row, line: int) -> Record:
    """One request as a record; what a record has no field for stays in the row."""
    try:
        request = TraceRequest.model_validate(row)
    except ValidationError as error:
        problem = field_problems(error)[0]
        raise RowRefused(problem.field or "row", problem.message[:200]) from None
    return Record(
        line,
        row,
        arrival_ns=request.due_ns,
        prompt=request.prompt,
        messages=request.messages,
        token_ids=request.prompt_token_ids,
        input_tokens=request.prompt_tokens,
        max_tokens=request.max_tokens,
        reference=request.reference,
        asked=_asked(request),
        labels=request.strata,
        session=request.turn.session if request.turn else None,
        think_ns=request.turn.think_ns if request.turn else None,
    )


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The lines as they are; the first row must be the header."""
    file.writelines(encode(row) + b"\n" for row in rows)


FORMAT = Format("verdraft", "Verdraft trace, JSON Lines", read, write)


def _item(line: Line) -> Record | BadRow:
    try:
        return parse(decode_object(line.content), line.number)
    except RowRefused as refusal:
        return BadRow(line.number, refusal.field, refusal.reason)


def _asked(request: TraceRequest) -> dict[str, JsonValue]:
    document: Row = request.model_dump(mode="json", exclude_defaults=True)
    sampling = request.sampling.model_dump(mode="json", exclude_none=True) if request.sampling else {}
    stop: Row = {"stop": list(request.stop)} if request.stop else {}
    return sampling | stop | {name: document[name] for name in _ASKED if name in document}
