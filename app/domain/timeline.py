"""A run on one clock: what was offered, what the engine held, what it accepted, what its device and host did.

Nothing is averaged over arms or runs here; gauges are as sampled, counters become rates between neighbouring samples.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.exposition import (
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    GENERATION_TOKENS,
    KV_CACHE_USAGE,
    PREEMPTIONS,
    RUNNING,
    WAITING,
)
from app.domain.series import (
    DEVICE_MEMORY,
    ENGINE_CPU,
    ENGINE_RSS,
    FOREIGN_CPU,
    MEMORY_CLOCK,
    POWER,
    SM_CLOCK,
    STOLEN_CPU,
    TEMPERATURE,
    UTILIZATION,
    Series,
    having,
    the_one,
)
from app.domain.vocabulary import NS_PER_S

PREFIX_QUERIES, PREFIX_HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"

Points = tuple[tuple[float, float], ...]


class Track(BaseModel):
    """One line of the timeline: seconds since the replay's start, and values in ``unit``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    unit: str
    panel: str
    """Tracks of one panel share an axis."""
    device: str | None = None
    at_s: tuple[float, ...]
    values: tuple[float, ...]


class Span(NamedTuple):
    """When a request was due and when its answer had ended, if it did."""

    due_ns: int
    end_ns: int | None


def timeline(spans: Sequence[Span], series: Sequence[Series]) -> tuple[Track, ...]:
    """Every track that the run's evidence has; one that was not sampled is absent."""
    return tuple(track for track in (*_client(spans), *_engine(series), *_host(series)) if track.at_s)


def _client(spans: Sequence[Span]) -> Iterator[Track]:
    due = sorted(span.due_ns for span in spans)
    ended = sorted(span.end_ns for span in spans if span.end_ns is not None)
    yield _track("offered", "requests", "requests", _counted(due))
    yield _track("completed", "requests", "requests", _counted(ended))
    steps = sorted([(at, 1) for at in due] + [(at, -1) for at in ended])
    in_flight, points = 0, list[tuple[float, float]]()
    for at, change in steps:
        in_flight += change
        points.append((at / NS_PER_S, in_flight))
    yield _track("in flight", "requests", "queue", tuple(points))


def _counted(times_ns: Sequence[int]) -> Points:
    return tuple((at / NS_PER_S, count) for count, at in enumerate(times_ns, start=1))


def _engine(series: Sequence[Series]) -> Iterator[Track]:
    for name, shown in ((RUNNING, "running"), (WAITING, "waiting")):
        yield from _gauge(series, name, shown, "requests", "queue")
    yield from _gauge(series, KV_CACHE_USAGE, "KV cache in use", "share", "shares")
    yield _ratio(series, ACCEPTED_TOKENS, DRAFT_TOKENS, "acceptance")
    yield _ratio(series, PREFIX_HITS, PREFIX_QUERIES, "prefix hits")
    yield from _rate(series, GENERATION_TOKENS, "output", "tokens/s", "tokens")
    yield from _gauge(series, PREEMPTIONS, "preemptions", "preemptions", "preemptions")


def _host(series: Sequence[Series]) -> Iterator[Track]:
    yield from _gauge(series, POWER, "power", "W", "power")
    yield from _gauge(series, SM_CLOCK, "SM clock", "MHz", "clocks")
    yield from _gauge(series, MEMORY_CLOCK, "memory clock", "MHz", "clocks")
    yield from _gauge(series, TEMPERATURE, "temperature", "°C", "temperature")
    yield from _gauge(series, UTILIZATION, "GPU utilisation", "%", "utilisation")
    yield from _gauge(series, DEVICE_MEMORY, "device memory", "bytes", "memory")
    yield from _gauge(series, ENGINE_RSS, "engine's resident memory", "bytes", "memory")
    for name, shown in ((ENGINE_CPU, "engine"), (FOREIGN_CPU, "other programs"), (STOLEN_CPU, "hypervisor")):
        yield from _rate(series, name, shown, "cores", "processor")


def _gauge(series: Sequence[Series], name: str, shown: str, unit: str, panel: str) -> Iterator[Track]:
    for found in having(series, name):
        points = tuple((at / NS_PER_S, value) for at, value in zip(found.at_ns, found.values, strict=True))
        yield _track(shown, unit, panel, points, found.labels.get("device"))


def _rate(series: Sequence[Series], name: str, shown: str, unit: str, panel: str) -> Iterator[Track]:
    for found in having(series, name):
        yield _track(shown, unit, panel, tuple(_differences(found)), found.labels.get("device"))


def _differences(series: Series) -> Iterator[tuple[float, float]]:
    """Per second, placed at the later of two samples."""
    for (earlier, before), (later, after) in pairwise(zip(series.at_ns, series.values, strict=True)):
        if later > earlier:
            yield later / NS_PER_S, (after - before) * NS_PER_S / (later - earlier)


def _ratio(series: Sequence[Series], above: str, below: str, shown: str) -> Track:
    """Of what two counters gained between samples; a second in which the lower one stood still has no ratio."""
    top, bottom = the_one(series, above), the_one(series, below)
    if top is None or bottom is None or top.at_ns != bottom.at_ns:
        return _track(shown, "share", "shares", ())
    gained = zip(bottom.at_ns[1:], pairwise(top.values), pairwise(bottom.values), strict=True)
    points = [(at / NS_PER_S, (b - a) / (d - c)) for at, (a, b), (c, d) in gained if d > c]
    return _track(shown, "share", "shares", tuple(points))


def _track(name: str, unit: str, panel: str, points: Points, device: str | None = None) -> Track:
    times, values = zip(*points, strict=True) if points else ((), ())
    return Track(name=name, unit=unit, panel=panel, device=device, at_s=times, values=values)
