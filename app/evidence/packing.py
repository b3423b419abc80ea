"""Traces as they are stored: canonical lines under zstd, packed and read again without ever being held whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import zstandard

from app.domain.trace import RequestStream, TraceHeader, TraceRequest, read_requests
from app.domain.trace_scan import TraceScan, split_lines
from app.domain.trace_summary import TraceSummary
from app.errors import PayloadTooLarge

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 1 << 20
"""Enough of a packed trace to show its first requests."""
UNPACKED_MAX = 512 << 20
RATIO_MAX = 100
"""A file that unpacks to more than this many times its size is a bomb, not a trace."""


@dataclass(frozen=True, slots=True)
class PackedTrace:
    """A checked trace, ready to be stored; ``body`` is its canonical JSON Lines under zstd."""

    summary: TraceSummary
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A stored trace whose requests are read anew each time; memory holds its compressed bytes alone."""

    body: bytes

    @property
    def header(self) -> TraceHeader:
        """The first line."""
        return self._stream().header

    @property
    def requests(self) -> Iterator[TraceRequest]:
        """Every request, from the start."""
        return self._stream().requests

    def of_load(self, load: str) -> tuple[TraceRequest, ...]:
        """The requests of one load point (or ``warmup``), in due order."""
        return tuple(sorted(self._stream(load).requests, key=lambda request: request.due_ns))

    def _stream(self, *loads: str) -> RequestStream:
        return read_requests(unpack_lines(self.body), *loads)


def pack_trace(chunks: Iterable[bytes]) -> PackedTrace:
    """Check a trace that comes in chunks and compress its canonical lines. Raises ``TraceRefused``."""
    scan, compressor, packed = TraceScan(), zstandard.ZstdCompressor().compressobj(), list[bytes]()
    for line in split_lines(chunks):
        scan.take(line)
        packed.append(compressor.compress(scan.canonical))
    summary = scan.summary()
    packed.append(compressor.flush())
    return PackedTrace(summary, b"".join(packed))


def unpack_lines(body: bytes) -> Iterator[bytes]:
    """The lines of a stored trace, without their newlines."""
    reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
    return split_lines(iter(lambda: reader.read(CHUNK_BYTES), b""))


def first_requests(head: bytes, count: int) -> list[TraceRequest]:
    """Up to ``count`` requests from the first ``HEAD_BYTES`` of a packed trace."""
    lines = [*islice(unpack_lines(head), count + 2)]
    if len(head) >= HEAD_BYTES and len(lines) < count + 2:
        lines.pop()  # where the head ends, a line may be cut off
    return [*read_requests(lines[: count + 1]).requests]


def unpack_upload(content: bytes) -> Iterator[bytes]:
    """The chunks of an uploaded zstd file. Raises ``PayloadTooLarge`` where it holds more than a trace may."""
    reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
    limit = min(UNPACKED_MAX, max(CHUNK_BYTES, len(content) * RATIO_MAX))
    taken = 0
    while chunk := reader.read(CHUNK_BYTES):
        taken += len(chunk)
        if taken > limit:
            raise PayloadTooLarge.of("(body)", f"it unpacks to more than {limit} bytes", "send less, or split it")
        yield chunk


def in_chunks(content: bytes) -> Iterator[bytes]:
    """A file that is in memory already, piece by piece."""
    return (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))
