"""EvalScope workload traces, JSON Lines: a request body and when it came, sometimes how long the answer was."""

from collections.abc import Iterator
from typing import BinaryIO

from pydantic import JsonValue

from app.workloads.readers.bodies import parse_body
from app.workloads.readers.documents import decode_object, read_json_lines, write_json_lines
from app.workloads.readers.fields import optional_count, required
from app.workloads.readers.format import Format
from app.workloads.readers.times import moment_ns
from app.workloads.record import Item, Record, Row, RowRefused

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "api-key", "x-api-key"})
REMOVED = "[removed at import]"


def read(file: BinaryIO) -> Iterator[Item]:
    """Every request of the file. Credentials in ``headers`` are replaced by a remark at once."""
    return read_json_lines(file, parse)


def parse(row: Row, line: int) -> Record:
    """A body (an object, or the same as JSON text) with its time in seconds or in ISO form."""
    return Record(
        line,
        _without_secrets(row),
        arrival_ns=moment_ns(required(row, "timestamp"), "timestamp"),
        output_tokens=optional_count(row, "completion_tokens", least=1),
        **parse_body(_body(required(row, "body"))),
    )


FORMAT = Format("evalscope", "EvalScope workload trace, JSON Lines", read, write_json_lines)


def _body(body: JsonValue) -> Row:
    if isinstance(body, str):
        try:
            return decode_object(body.encode())
        except RowRefused as refusal:
            raise RowRefused("body", refusal.reason) from None
    if not isinstance(body, dict):
        raise RowRefused("body", "is neither a JSON object nor its text")
    return body


def _without_secrets(row: Row) -> Row:
    headers = row.get("headers")
    if not isinstance(headers, dict) or not any(name.lower() in SECRET_HEADERS for name in headers):
        return row
    kept: Row = {name: REMOVED if name.lower() in SECRET_HEADERS else value for name, value in headers.items()}
    return {**row, "headers": kept}
