"""Bytes to server-sent events, however the bytes are cut.

Lines are split as bytes and decoded when complete, so a cut inside a UTF-8 sequence,
a CRLF or a field name changes nothing. Follows the WHATWG event stream rules.
"""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event: its ``data`` lines joined by newlines, and its type."""

    data: str
    event: str = "message"


class SseParser:
    """Feed it reads in order; each call returns the events that the read completed."""

    def __init__(self) -> None:
        self._rest = b""
        self._at_start = True
        self._after_cr = False
        self._data: list[str] = []
        self._event = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events whose closing blank line lies in ``chunk``."""
        buffer = self._rest + self._without_lf_of_crlf(chunk)
        if self._at_start:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            buffer, self._at_start = buffer.removeprefix(_BOM), False
        *lines, self._rest = _LINE_END.split(buffer)
        return [event for line in lines if (event := self._take(line.decode("utf-8", "replace"))) is not None]

    def _without_lf_of_crlf(self, chunk: bytes) -> bytes:
        """A CR ends its line at once; an LF that opens the next read belongs to it."""
        if not chunk:
            return chunk
        trimmed = chunk[1:] if self._after_cr and chunk[:1] == b"\n" else chunk
        self._after_cr = chunk[-1:] == b"\r"
        return trimmed

    def _take(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        return None

    def _dispatch(self) -> SseEvent | None:
        data, event = self._data, self._event
        self._data, self._event = [], ""
        return SseEvent("\n".join(data), event or "message") if data else None
