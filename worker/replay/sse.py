"""Bytes to server-sent events, however the bytes are cut.

Lines are split as bytes and joined when complete, so a cut inside a UTF-8 sequence, a CRLF or a field name changes
nothing. Follows the WHATWG event stream rules, but for decoding: bytes that are no UTF-8 must not pass as other text.
"""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class SseEvent(NamedTuple):
    """One dispatched event: its ``data`` lines joined by newlines, and its type."""

    data: bytes
    event: bytes = b"message"


class SseParser:
    """Feed it reads in order; each call returns the events that the read completed."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of a line whose end has not come; joined once, so that a huge line costs its bytes only."""
        self._is_first_line = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._event = b""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events whose closing blank line lies in ``chunk``."""
        events: list[SseEvent] = []
        for line in self._lines(chunk):
            if line.startswith(_DATA):  # what nearly every line is
                self._data.append(line[len(_DATA) :])
            elif line:
                self._take_field(line)
            else:
                if self._data:
                    events.append(SseEvent(b"\n".join(self._data), self._event or b"message"))
                    self._data = []
                self._event = b""
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that end in ``chunk``."""
        if self._after_cr or b"\r" in chunk:
            lines = _LINE_END.split(self._without_lf_of_crlf(chunk))
        else:
            lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest = []
        if rest:
            self._rest.append(rest)
        if lines and self._is_first_line:
            lines[0] = lines[0].removeprefix(_BOM)
            self._is_first_line = False
        return lines

    def _without_lf_of_crlf(self, chunk: bytes) -> bytes:
        """A CR ends its line at once; an LF that opens the next read belongs to it."""
        if not chunk:
            return chunk
        trimmed = chunk[1:] if self._after_cr and chunk[:1] == b"\n" else chunk
        self._after_cr = chunk[-1:] == b"\r"
        return trimmed

    def _take_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value
