"""The lines of a trace from its drafts and their timeline."""

import json
from collections import Counter
from collections.abc import Iterator

import numpy as np

from app.domain.canonical import canonical_json
from app.domain.trace_header import TraceHeader, TraceLoad
from app.domain.trace_scan import canonical_line
from app.workloads.drafting import STAND_IN_LOAD
from app.workloads.spool import Spool
from app.workloads.timeline import Segment, Timeline

_STAND_IN = f'"due_ns":0,"load":"{STAND_IN_LOAD}"'.encode()
STRATUM_MIN = 30
"""Below so many requests at one load point, a stratum of its own says little."""


def trace_lines(header: TraceHeader, spool: Spool, timeline: Timeline) -> Iterator[bytes]:
    """The header, then every request with its load point and offset, without line ends."""
    yield canonical_line(header)
    for segment in timeline.segments:
        for line, due_ns in zip(spool.lines(segment.rows), segment.due_ns.tolist(), strict=True):
            yield _dealt(line, segment.name, due_ns)


def _dealt(line: bytes, load: str, due_ns: int) -> bytes:
    """The draft's line with its load point and offset: spliced where the place is plain, which spares parsing it."""
    if line.count(_STAND_IN) == 1:
        return line.replace(_STAND_IN, f'"due_ns":{due_ns},"load":"{load}"'.encode())
    return canonical_json(json.loads(line) | {"load": load, "due_ns": due_ns})


def loads_of(timeline: Timeline) -> tuple[TraceLoad, ...]:
    """The header's load points."""
    return tuple(segment.load for segment in timeline.segments if segment.load is not None)


def warmup_requests(timeline: Timeline) -> int:
    """Requests of the warm-up."""
    return sum(len(segment.due_ns) for segment in timeline.segments if segment.load is None)


def strata_sizes(spool: Spool, segment: Segment) -> Counter[str]:
    """Stratum (``task=copy``) → requests of the segment. Turns count with their row's labels."""
    sizes: Counter[str] = Counter()
    requests = np.bincount(
        spool.strata[segment.rows], weights=spool.turns[segment.rows], minlength=len(spool.combinations)
    )
    for labels, number in spool.combinations.items():
        for dimension, label in labels:
            sizes[f"{dimension}={label}"] += int(requests[number])
    return +sizes


def thin_strata(spool: Spool, timeline: Timeline, least: int = STRATUM_MIN) -> Iterator[str]:
    """A warning for each stratum with too few requests at a load point, and each that the warm-up does not touch."""
    warm: Counter[str] = Counter()
    for segment in timeline.segments:
        sizes = strata_sizes(spool, segment)
        if segment.load is None:
            warm = sizes
            continue
        for stratum, size in sorted(sizes.items()):
            if size < least:
                yield f"load {segment.name}: stratum {stratum} has {size} requests, fewer than {least}"
            if warm and stratum not in warm:
                yield f"the warm-up has no request of stratum {stratum}"
