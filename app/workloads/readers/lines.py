"""The lines of a file, one at a time, however long the file or a line is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from app.workloads.record import BadRow, Note

LINE_BYTES_MAX = 16 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK_LINE = "blank line"
NO_LINE_END = "the last line has no line end: if the file was cut short, its last row may be wrong"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or another piece of a file, without its end. ``number`` counts from 1, blank lines included."""

    number: int
    content: bytes


def read_lines(file: BinaryIO) -> Iterator[Line | BadRow | Note]:
    """Every line; one that is longer than ``LINE_BYTES_MAX`` is a bad row."""
    number = 0
    ended = True
    while raw := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        ended = raw.endswith(b"\n")
        if not ended and len(raw) > LINE_BYTES_MAX:
            ended = _skip_rest_of_line(file)
            yield BadRow(number, "line", f"is longer than {LINE_BYTES_MAX >> 20} MiB")
        else:
            content = (raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw).rstrip(b"\r\n")
            yield Line(number, content) if content.strip() else Note(number, BLANK_LINE)
    if not ended:
        yield Note(number, NO_LINE_END)


def _skip_rest_of_line(file: BinaryIO) -> bool:
    while piece := file.readline(LINE_BYTES_MAX):
        if piece.endswith(b"\n"):
            return True
    return False
