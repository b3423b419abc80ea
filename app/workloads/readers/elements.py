"""The elements of one huge JSON array, one at a time, without reading it whole.

A streaming JSON library would stop at the first flaw and know no lines. Here an element with a flaw inside is one
bad row and the next element is read; damage that hides where an element ends is reported with its lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from app.workloads.readers.lines import LINE_BYTES_MAX, Line
from app.workloads.record import BadRow

CHUNK_BYTES = 1 << 20
ELEMENT_BYTES_MAX = LINE_BYTES_MAX
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>"?)|[\[\]{},]', re.DOTALL)
"""A string, whole or cut off by the end of what was read so far, or a structural character."""
_QUOTE = ord('"')
_COMMA = ord(",")
_OPENING = frozenset(b"[{")


def read_elements(file: BinaryIO, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Line | BadRow]:
    """Each element's text with the line on which it begins. The file must begin with ``[`` (and white space)."""
    return _Splitter(file, chunk_bytes).elements()


@dataclass(slots=True)
class _Splitter:
    file: BinaryIO
    chunk_bytes: int
    buffer: bytes = b""
    begin: int = 0
    """Where the current element begins in the buffer."""
    scanned: int = 0
    """Up to where the buffer's structure is known."""
    line: int = 1
    """The line of ``begin``."""
    depth: int = 1
    closed: bool = field(default=False)

    def elements(self) -> Iterator[Line | BadRow]:
        self._enter()
        reading = True
        while reading and not self.closed:
            yield from self._scan()
            if len(self.buffer) - self.begin > ELEMENT_BYTES_MAX:
                yield self._damage(f"does not end within {ELEMENT_BYTES_MAX >> 20} MiB; nothing after it was read")
                return
            reading = not self.closed and self._read_more()
        yield from self._tail()

    def _enter(self) -> None:
        while b"[" not in self.buffer and self._read_more():
            pass
        self.begin = self.scanned = self.buffer.index(b"[") + 1
        self.line += self.buffer.count(b"\n", 0, self.begin)

    def _read_more(self) -> bool:
        piece = self.file.read(self.chunk_bytes)
        self.buffer = self.buffer[self.begin :] + piece
        self.scanned -= self.begin
        self.begin = 0
        return bool(piece)

    def _scan(self) -> Iterator[Line | BadRow]:
        for token in _TOKEN.finditer(self.buffer, self.scanned):
            if self.buffer[token.start()] == _QUOTE:
                if not token["closed"]:
                    return
                self.scanned = token.end()
                continue
            self.scanned = token.end()
            if self._ends_element(self.buffer[token.start()]):
                yield from self._taken(token.start())
            if self.closed:
                return

    def _ends_element(self, character: int) -> bool:
        if character == _COMMA:
            return self.depth == 1
        self.depth += 1 if character in _OPENING else -1
        if self.depth > 0:
            return False
        # A bracket ends the array. A brace closes nothing that was opened: the element is broken, the array is not.
        self.closed = character == ord("]")
        self.depth = 1
        return self.closed

    def _taken(self, end: int) -> Iterator[Line | BadRow]:
        content = self.buffer[self.begin : end]
        stripped = content.strip()
        first = self.line + content[: len(content) - len(content.lstrip())].count(b"\n")
        self.line += content.count(b"\n")
        self.begin = end + 1
        if stripped:
            yield Line(first, stripped)
        elif not self.closed:
            yield BadRow(first, "element", "is empty")

    def _tail(self) -> Iterator[BadRow]:
        if not self.closed:
            yield self._damage("is cut off: the file ends before the list is closed")
            return
        while self._read_more() and len(self.buffer) <= ELEMENT_BYTES_MAX:
            pass
        if self.buffer[self.begin :].strip():
            yield self._damage("follows after the end of the list")

    def _damage(self, reason: str) -> BadRow:
        rest = self.buffer[self.begin :]
        first = self.line + rest[: len(rest) - len(rest.lstrip())].count(b"\n")
        return BadRow(first, "element", reason, self.line + rest.rstrip().count(b"\n"))
