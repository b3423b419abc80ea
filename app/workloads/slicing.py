"""A part of a trace as a trace of its own: by load point, time window and count, or a fair sample; its pace may change.

Sessions stay whole: one is taken with all its turns, or not at all. The warm-up is always taken.
"""

import math
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from app.domain.arrival import ArrivalNote
from app.domain.errors import DomainError
from app.domain.trace_header import TraceHeader, TraceLoad
from app.domain.trace_request import TraceRequest
from app.domain.trace_scan import TraceScan, canonical_line, split_lines
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.workloads.output import Written, write_lines

CHUNK_BYTES = 1 << 20
NAME_LENGTH_MAX = 63
Choose = Callable[[TraceRequest], bool]
"""Whether a request without a session, or a session's first turn, is taken. May count: each pass needs a fresh one."""


@dataclass(frozen=True, slots=True)
class Window:
    """Requests of one load point that are due in ``[from_ns, to_ns)``; of those, in file order, the first ``count``."""

    load: str
    from_ns: int = 0
    to_ns: int | None = None
    count: int | None = None
    speed: float = 1.0
    """Time in the new trace passes so many times faster."""


@dataclass(frozen=True, slots=True)
class _Part:
    load: TraceLoad
    choose: Callable[[], Choose]
    becomes: Callable[[int], TraceLoad]
    """The new load point, given how many requests it has."""
    moved: Callable[[TraceRequest], TraceRequest]
    note: dict[str, JsonValue]


def slice_trace(path: Path, output: Path, window: Window, name: str | None = None) -> Written:
    """Write the window as a trace whose offsets begin at 0. Raises ``DomainError``."""
    load = _load(read_header(path), window.load)
    _check_window(load, window)

    def becomes(requests: int) -> TraceLoad:
        return load.model_copy(update={"requests": requests} | _pace(load, window, requests))

    def moved(request: TraceRequest) -> TraceRequest:
        if load.clients is not None:
            return request
        return request.model_copy(update={"due_ns": math.floor((request.due_ns - window.from_ns) / window.speed)})

    note: dict[str, JsonValue] = {
        "load": window.load,
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
        "count": window.count,
        "speed": window.speed,
    }
    return _write(path, output, _Part(load, lambda: _in_window(window), becomes, moved, {"slice": note}), name)


def sample_trace(
    path: Path, output: Path, load_name: str, *, count: int, seed: int, name: str | None = None
) -> Written:
    """Write ``count`` requests or sessions of a load point, each as likely as any other. Raises ``DomainError``.

    Offsets stay as they are, so the rate falls with the share: the arrivals are thinned, not slowed down.
    """
    load = _load(read_header(path), load_name)
    limit = _rank_limit(path, load_name, count, seed)

    def becomes(requests: int) -> TraceLoad:
        if load.rate_rps is None:
            return load.model_copy(update={"requests": requests})
        rate_rps = _rounded(load.rate_rps * requests / load.requests)
        note = ArrivalNote(kind="thinned", seed=seed)
        return load.model_copy(update={"requests": requests, "rate_rps": rate_rps, "arrival": note})

    part = _Part(
        load,
        lambda: lambda request: _rank(request, seed) <= limit,
        becomes,
        lambda request: request,
        {"sample": {"load": load_name, "count": count, "seed": seed}},
    )
    return _write(path, output, part, name)


def read_requests(path: Path) -> Iterator[TraceRequest]:
    """Every request of a trace; raises ``TraceRefused`` where the file is not a whole and valid trace."""
    scan = TraceScan()
    with path.open("rb") as file:
        for line in split_lines(iter(lambda: file.read(CHUNK_BYTES), b"")):
            document = scan.take(line)
            if isinstance(document, TraceRequest):
                yield document
    scan.summary()


def read_header(path: Path) -> TraceHeader:
    scan = TraceScan()
    with path.open("rb") as file:
        scan.take(next(split_lines(iter(lambda: file.read(CHUNK_BYTES), b"")), b""))
    if scan.header is None:
        scan.summary()
        raise DomainError.of("trace", "it has no header", "give a trace of this product")
    return scan.header


def _write(path: Path, output: Path, part: _Part, name: str | None) -> Written:
    if output.exists() and output.samefile(path):
        raise DomainError.of("output", "it is the trace itself", "give another file with --output")
    requests = sum(request.load == part.load.name for request in _taken(path, part))
    if not requests:
        raise DomainError.of("trace", "nothing of it is in that part", "widen the window, or take more")
    header = _part_header(read_header(path), part, part.becomes(requests), name)
    return write_lines(output, _lines(header, path, part))


def _lines(header: TraceHeader, path: Path, part: _Part) -> Iterator[bytes]:
    yield canonical_line(header)
    for request in _taken(path, part):
        yield canonical_line(part.moved(request) if request.load == part.load.name else request)


def _taken(path: Path, part: _Part) -> Iterator[TraceRequest]:
    """The warm-up, and what the part takes of its load point; later turns follow their session's first."""
    choose = part.choose()
    sessions: set[str] = set()
    for request in read_requests(path):
        if request.load == WARMUP:
            yield request
        elif request.load == part.load.name:
            later = request.turn is not None and request.turn.index > 0
            if request.turn is not None and (request.turn.session in sessions if later else choose(request)):
                sessions.add(request.turn.session)
                yield request
            elif request.turn is None and choose(request):
                yield request


def _part_header(header: TraceHeader, part: _Part, load: TraceLoad, name: str | None) -> TraceHeader:
    kind = next(iter(part.note))
    return header.model_copy(
        update={
            "name": name or f"{header.name[: NAME_LENGTH_MAX - len(kind) - 1]}-{kind}",
            "loads": (load,),
            "record": (header.record or {}) | part.note,
        }
    )


def _load(header: TraceHeader, name: str) -> TraceLoad:
    load = header.load(name)
    if load is None:
        names = ", ".join(load.name for load in header.loads)
        raise DomainError.of("load", f"the trace has no load point {name[:60]!r}", f"name one of {names} with --load")
    return load


def _check_window(load: TraceLoad, window: Window) -> None:
    if not (window.speed > 0 and math.isfinite(window.speed)):
        raise DomainError.of("speed", f"{window.speed} is not a positive number", "give a factor above 0, such as 2")
    if load.clients is not None and (window.from_ns, window.to_ns, window.speed) != (0, None, 1.0):
        raise DomainError.of("load", "in a closed loop nothing is due at a time", "slice it by --count alone")
    end_ns = load.duration_ns if window.to_ns is None else window.to_ns
    if load.clients is None and not 0 <= window.from_ns < end_ns:
        message = f"from {window.from_ns / NS_PER_S:g} s to {end_ns / NS_PER_S:g} s is no time"
        raise DomainError.of("window", message, f"the load lasts {load.duration_ns / NS_PER_S:g} s")


def _in_window(window: Window) -> Choose:
    left = window.count

    def choose(request: TraceRequest) -> bool:
        nonlocal left
        if (
            request.due_ns < window.from_ns
            or (window.to_ns is not None and request.due_ns >= window.to_ns)
            or left == 0
        ):
            return False
        left = None if left is None else left - 1
        return True

    return choose


def _pace(load: TraceLoad, window: Window, requests: int) -> dict[str, object]:
    if load.clients is not None:
        return {}
    end_ns = min(load.duration_ns, load.duration_ns if window.to_ns is None else window.to_ns)
    duration_ns = max(1, round((end_ns - window.from_ns) / window.speed))
    note = load.arrival if window.speed == 1 else ArrivalNote(kind="scaled", speed=window.speed)
    return {"duration_ns": duration_ns, "rate_rps": _rounded(requests * NS_PER_S / duration_ns), "arrival": note}


def _rounded(rate_rps: float) -> float:
    return float(f"{rate_rps:.6g}")


def _rank(request: TraceRequest, seed: int) -> int:
    """A number from the request's name and the seed: the smallest ``count`` of them are a fair sample."""
    name = request.turn.session if request.turn else request.request_id
    return int.from_bytes(blake2b(f"{seed} {name}".encode(), digest_size=7).digest())


def _rank_limit(path: Path, load: str, count: int, seed: int) -> int:
    first_turns = (r for r in read_requests(path) if r.load == load and (r.turn is None or r.turn.index == 0))
    ranks = np.frombuffer(array("q", (_rank(request, seed) for request in first_turns)), dtype=np.int64)
    if not 0 < count <= len(ranks):
        raise DomainError.of("count", f"load {load} has {len(ranks)} requests or sessions", f"give 1 to {len(ranks)}")
    return int(np.partition(ranks, count - 1)[count - 1])
