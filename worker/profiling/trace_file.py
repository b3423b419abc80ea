"""The file that the engine's profiler wrote → the spans in it, read piece by piece: most of a trace is other events."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from app.domain.errors import EvidenceRefused
from app.domain.step_profile import Span, span_of

PATTERN = "*.pt.trace.json*"
_FIRST_RANK = re.compile(r"rank-?0\.")
"""``rank0.…`` in vLLM 0.32, ``…-rank-0.…`` in 0.27."""
CHUNK_CHARACTERS = 1 << 20
EVENT_CHARACTERS_MAX = 16 << 20
_MARK = '"traceEvents"'
_BETWEEN = " \t\r\n,"


def find_trace(directory: Path) -> Path:
    """The trace of the first rank; others of a tensor-parallel engine do the same at the same time.

    Raises ``EvidenceRefused`` where there is none.
    """
    found = sorted(directory.glob(PATTERN))
    if not found:
        raise EvidenceRefused.of(
            "trace", f"the profiler wrote none into {directory}", "read the engine's log beside it"
        )
    return next((path for path in found if _FIRST_RANK.search(path.name)), found[0])


def read_spans(path: Path) -> list[Span]:
    """Scopes and annotations of steps. Raises ``EvidenceRefused`` for what is not a whole trace."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
            return [span for event in _events(cast("TextIO", text)) if (span := span_of(event)) is not None]
    except (OSError, EOFError, zlib.error, ValueError) as error:
        message = f"{path.name} is no whole trace: {error}"
        raise EvidenceRefused.of(
            "trace", message, "profile again; the engine was stopped before it had written it"
        ) from error


def _events(text: TextIO) -> Iterator[dict[str, Any]]:
    """The elements of ``traceEvents``. Raises ``ValueError``."""
    decoder, buffer = json.JSONDecoder(), _beginning(text)
    at = 0
    while True:
        while at < len(buffer) and buffer[at] in _BETWEEN:
            at += 1
        if at < len(buffer) and buffer[at] == "]":
            return
        try:
            event, at = decoder.raw_decode(buffer, at)
        except json.JSONDecodeError:
            buffer, at = _more(text, buffer[at:]), 0
            continue
        if isinstance(event, dict):
            yield cast("dict[str, Any]", event)


def _beginning(text: TextIO) -> str:
    """What was read after the opening bracket of the list of events."""
    buffer = ""
    while (at := buffer.find(_MARK)) < 0 or (bracket := buffer.find("[", at)) < 0:
        buffer = _more(text, buffer)
    return buffer[bracket + 1 :]


def _more(text: TextIO, left: str) -> str:
    read = text.read(CHUNK_CHARACTERS)
    if not read:
        raise ValueError("it ends in the middle")
    if len(left) > EVENT_CHARACTERS_MAX:
        raise ValueError("it is not a list of events")
    return left + read
