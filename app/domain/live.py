"""What an engine does while it is measured, in a few numbers for a page: unaudited, never stored, never evidence.

They are read from the scrapes that a run takes anyway, by pattern: parsing a whole exposition costs the measured host
more. Counts are since the run's first scrape; times are the engine's own means, not the client's percentiles.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.exposition import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    KV_CACHE_USAGE,
    REQUEST_SUCCESS,
    RUNNING,
    SERVED_REASONS,
    WAITING,
)
from app.domain.vocabulary import NS_PER_S

POINTS_MAX: Final = 60
"""Of the history that goes with each picture; beyond, every second one is left out."""
DEVICES_MAX: Final = 8
POSITIONS_MAX: Final = 32
_TTFT: Final = "vllm:time_to_first_token_seconds"
_ITL: Final = "vllm:inter_token_latency_seconds"
_NAMES: Final = (
    *(RUNNING, WAITING, KV_CACHE_USAGE, GENERATION_TOKENS, REQUEST_SUCCESS),
    *(DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS, ACCEPTED_PER_POSITION),
    *(f"{_TTFT}_sum", f"{_TTFT}_count", f"{_ITL}_sum", f"{_ITL}_count"),
)
_LINE: Final = re.compile(rf"^({'|'.join(_NAMES)})(?:\{{(.*)\}})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(?:^|,)(position|finished_reason)="([^"]*)"')


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LivePoint(NamedTuple):
    """One moment of a run: seconds since its first scrape, and what was so then or since the point before."""

    at_s: float
    running: int
    waiting: int
    tokens_per_s: float | None
    acceptance: float | None
    kv_cache_usage: float | None


class LiveRun(_Frozen):
    """The run under way. ``requests`` is what it offers in all; ``finished`` counts those that were served."""

    workload: str
    load: str
    attempt: int
    requests: int
    elapsed_s: float
    finished: int
    failed: int
    running: int
    waiting: int
    tokens_per_s: float | None
    kv_cache_usage: float | None
    """Share of its blocks, 0 to 1."""
    ttft_ms: float | None
    tpot_ms: float | None
    drafted: int | None
    acceptance: float | None
    by_position: tuple[float, ...] = ()
    """Drafts of which the token at that position was accepted, as a share of all drafts."""
    history: tuple[LivePoint, ...] = ()


class LiveDevice(_Frozen):
    """A GPU as its driver says; absent is what it does not tell."""

    name: str
    utilization_perc: float | None = None
    memory_used_bytes: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class LivePicture(_Frozen):
    """One session at one moment; ``run`` only while a replay is under way."""

    block: int
    arm: str
    at: datetime
    run: LiveRun | None = None
    devices: tuple[LiveDevice, ...] = ()
    engine_rss_bytes: float | None = None
    engine_cores: float | None = None
    """Cores that the engine's processes kept busy since the picture before."""


class LiveLog(_Frozen):
    """The last lines of the running engine's log, with secrets redacted."""

    block: int
    arm: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gauges:
    """What one scrape says, summed over engines."""

    at_ns: int
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    by_position: tuple[float, ...] = ()
    served: float = 0
    """Requests that ended as they should."""

    def get(self, name: str) -> float | None:
        """The value, where the engine exposes it."""
        return self.values.get(name)


def read_gauges(at_ns: int, text: str) -> Gauges:
    """The few values of an exposition that a page shows; a line that is no number is left out."""
    values: dict[str, float] = {}
    positions: dict[int, float] = {}
    served = 0.0
    for name, labels, number in _LINE.findall(text):
        try:
            value = float(number)
        except ValueError:
            continue
        label = dict(_LABEL.findall(labels))
        if name == ACCEPTED_PER_POSITION and label.get("position", "").isdecimal():
            position = int(label["position"])
            positions[position] = positions.get(position, 0.0) + value
        if name == REQUEST_SUCCESS and label.get("finished_reason") in SERVED_REASONS:
            served += value
        known = values.get(name, 0.0)
        values[name] = max(known, value) if name == KV_CACHE_USAGE else known + value
    whole = len(positions) <= POSITIONS_MAX and set(positions) == set(range(len(positions)))
    return Gauges(at_ns, values, tuple(positions[j] for j in range(len(positions))) if whole else (), served)


@dataclass(slots=True)
class Following:
    """Turns the scrapes of one run into pictures, one after the other."""

    workload: str
    load: str
    attempt: int
    requests: int
    _first: Gauges | None = None
    _newest: Gauges | None = None
    _history: list[LivePoint] = field(default_factory=list[LivePoint])
    _step_ns: int = 0

    def add(self, now: Gauges) -> LiveRun:
        """The run as of ``now``, which is newer than what was added before."""
        first = self._first = self._first or now
        before = self._newest or now
        self._remember(first, before, now)
        return LiveRun(
            workload=self.workload,
            load=self.load,
            attempt=self.attempt,
            requests=self.requests,
            elapsed_s=_seconds(first, now),
            finished=round(now.served - first.served),
            failed=round(max(0.0, (_since(first, now, REQUEST_SUCCESS) or 0.0) - (now.served - first.served))),
            running=round(now.get(RUNNING) or 0),
            waiting=round(now.get(WAITING) or 0),
            tokens_per_s=_rate(before, now),
            kv_cache_usage=now.get(KV_CACHE_USAGE),
            ttft_ms=_mean_ms(_since(first, now, f"{_TTFT}_sum"), _since(first, now, f"{_TTFT}_count")),
            tpot_ms=_tpot_ms(first, now),
            drafted=_whole(_since(first, now, DRAFT_TOKENS)),
            acceptance=_share(_since(first, now, ACCEPTED_TOKENS), _since(first, now, DRAFT_TOKENS)),
            by_position=_by_position(first, now),
            history=tuple(self._history),
        )

    def _remember(self, first: Gauges, before: Gauges, now: Gauges) -> None:
        self._newest = now
        if self._history and now.at_ns - first.at_ns < self._history[-1].at_s * NS_PER_S + self._step_ns:
            return
        self._history.append(
            LivePoint(
                at_s=round(_seconds(first, now), 1),
                running=round(now.get(RUNNING) or 0),
                waiting=round(now.get(WAITING) or 0),
                tokens_per_s=_rounded(_rate(before, now), 1),
                acceptance=_rounded(_share(_since(before, now, ACCEPTED_TOKENS), _since(before, now, DRAFT_TOKENS)), 3),
                kv_cache_usage=_rounded(now.get(KV_CACHE_USAGE), 3),
            )
        )
        if len(self._history) > POINTS_MAX:
            del self._history[1::2]
            self._step_ns = round((now.at_ns - first.at_ns) / len(self._history) * 0.9)


def cores_in_use(before: tuple[float, float] | None, now: tuple[float, float] | None) -> float | None:
    """Processor seconds per second between two readings ``(at_s, cpu_s)``."""
    if before is None or now is None or now[0] <= before[0]:
        return None
    return max(0.0, (now[1] - before[1]) / (now[0] - before[0]))


def last_lines(text: str, *, count: int, width: int, size: int) -> tuple[str, ...]:
    """At most ``count`` whole lines of the end of ``text``, each cut at ``width``, ``size`` characters in all.

    What follows the last line break is left out: half a secret is none that redaction knows.
    """
    whole = text.rpartition("\n")[0]
    found: list[str] = []
    for line in reversed(whole.split("\n")[-count:] if whole else []):
        shown = line if len(line) <= width else f"{line[:width]}…"
        size -= len(shown)
        if size < 0:
            break
        found.append(shown)
    return tuple(reversed(found))


def _since(before: Gauges, now: Gauges, name: str) -> float | None:
    earlier, later = before.get(name), now.get(name)
    return None if earlier is None or later is None else max(0.0, later - earlier)


def _seconds(before: Gauges, now: Gauges) -> float:
    return (now.at_ns - before.at_ns) / NS_PER_S


def _rate(before: Gauges, now: Gauges) -> float | None:
    tokens, seconds = _since(before, now, GENERATION_TOKENS), _seconds(before, now)
    return None if tokens is None or seconds <= 0 else tokens / seconds


def _tpot_ms(first: Gauges, now: Gauges) -> float | None:
    """Time between outputs over the tokens after the first: a step with speculation gives several tokens."""
    tokens, begun = _since(first, now, GENERATION_TOKENS), _since(first, now, f"{_TTFT}_count")
    return None if tokens is None or begun is None else _mean_ms(_since(first, now, f"{_ITL}_sum"), tokens - begun)


def _by_position(first: Gauges, now: Gauges) -> tuple[float, ...]:
    drafts = _since(first, now, DRAFTS)
    if not drafts or len(first.by_position) != len(now.by_position):
        return ()
    return tuple(
        min(1.0, max(0.0, later - earlier) / drafts)
        for earlier, later in zip(first.by_position, now.by_position, strict=True)
    )


def _mean_ms(total_s: float | None, count: float | None) -> float | None:
    return None if total_s is None or count is None or count <= 0 else 1000 * total_s / count


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def greatest(values: Iterable[float | None]) -> float:
    """The largest that is known, for an axis; 0 without any."""
    return max((v for v in values if v is not None), default=0.0)


def column(history: Sequence[LivePoint], name: str) -> list[float | None]:
    """One quantity of the history."""
    return [getattr(point, name) for point in history]
