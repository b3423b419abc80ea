"""Every read of a replay in the order of arrival, kept so that a read costs four appends and memory stays bounded."""

import os
from array import array
from collections.abc import Iterator
from pathlib import Path

READS_BEFORE_WRITE = 1024
"""So many chunks of an answer are some 250 kB: written to the page cache in about a tenth of a millisecond."""


class ReadLog:
    """Bytes go to a file, one after the other; of each read, the index of its request, its stamp and its size stay.

    Memory: 16 bytes a read, and the bytes of ``READS_BEFORE_WRITE`` of them.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is a new file without a name: it is gone with the process. Raises ``OSError``."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()
        self._chunks: list[bytes] = []
        self._owners = array("i")
        self._at_ns = array("q")
        self._sizes = array("q")

    def keep(self, owner: int, at_ns: int, chunk: bytes) -> None:
        """One read."""
        self._owners.append(owner)
        self._at_ns.append(at_ns)
        self._sizes.append(len(chunk))
        self._chunks.append(chunk)
        if len(self._chunks) == READS_BEFORE_WRITE:
            self._write()

    def portions(self, size: int) -> Iterator[tuple["array[int]", "array[int]", list[bytes]]]:
        """At most ``size`` reads at a time, in the order of arrival: indices of their requests, stamps, bytes."""
        self._write()
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            for first in range(0, len(self._sizes), size):
                portion = slice(first, first + size)
                chunks = [file.read(count) for count in self._sizes[portion]]
                yield self._owners[portion], self._at_ns[portion], chunks

    def _write(self) -> None:
        left = memoryview(b"".join(self._chunks))
        while left:
            left = left[os.write(self._fd, left) :]
        self._chunks.clear()
