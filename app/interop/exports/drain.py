"""A file that only grows and whose bytes are taken away as they come."""

import io
from typing import Any


class Drain(io.RawIOBase):
    """For writers that want a file where there is a stream."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def take(self) -> bytes:
        """What was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
