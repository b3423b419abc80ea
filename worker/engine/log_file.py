"""The log that an engine writes: read whole, or its two ends where it is a flood."""

from pathlib import Path
from typing import Final

END_BYTES: Final = 1024**2
"""A whole start-up is a tenth of it. More would be searched for longer than a heartbeat may wait."""


def read_log(path: Path) -> str:
    """The log's text. Of a long one its beginning and its end, and between them how much was left out."""
    with path.open("rb") as stream:
        head = stream.read(END_BYTES)
        size = path.stat().st_size
        left_out = max(0, size - 2 * END_BYTES)
        stream.seek(len(head) + left_out)
        tail = stream.read(END_BYTES)
    between = f"\n[{left_out} bytes of this log were left out]\n".encode() if left_out else b""
    return (head + between + tail).decode(errors="replace")
