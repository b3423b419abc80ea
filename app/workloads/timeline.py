"""Deals the spooled rows to the warm-up and the load points, each with frozen integer offsets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.domain.arrival import ArrivalKind, ArrivalNote, arrivals, scaled
from app.domain.errors import DomainError
from app.domain.trace_header import TraceLoad
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.workloads.choices import Spread, Turns
from app.workloads.loads import LoadWish, Timing
from app.workloads.spool import NO_ARRIVAL, Integers, Spool
from app.workloads.warmup import pick_warmup, warmup_size

WARMUP_RPS = 5.0


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one load point, or of the warm-up (``load`` is None), with an offset for each of their requests."""

    load: TraceLoad | None
    rows: Integers
    due_ns: Integers

    @property
    def name(self) -> str:
        """The load's name."""
        return self.load.name if self.load else WARMUP


@dataclass(frozen=True, slots=True)
class _Dealt:
    """The rows that a load point got, with their arrivals and how many requests each has."""

    wish: LoadWish
    rows: Integers
    arrivals: Integers
    turns: Integers

    @property
    def requests(self) -> int:
        return int(self.turns.sum())

    @property
    def is_timed(self) -> bool:
        return bool((self.arrivals != NO_ARRIVAL).all())


@dataclass(frozen=True, slots=True)
class Timeline:
    """All segments, the warm-up first. ``left_over`` rows belong to no load point."""

    segments: tuple[Segment, ...]
    left_over: int


def lay_out(spool: Spool, timing: Timing, turns: Turns) -> Timeline:
    """Deal the rows in order of time. Raises ``DomainError`` where the loads ask for what the source does not have."""
    order = _in_time_order(spool)
    place = pick_warmup(spool.strata[order], list(spool.combinations), warmup_size(timing.warmup, len(order)))
    measured = np.delete(order, place)
    segments: list[Segment] = []
    for number, wish in enumerate(timing.loads):
        dealt = _deal(measured, spool, wish)
        segments.append(_segment(dealt, timing, number, turns))
        measured = measured[len(dealt.rows) :]
    return Timeline((_warmup(spool, order[place], segments), *segments), len(measured))


def _in_time_order(spool: Spool) -> Integers:
    if not len(spool):
        raise DomainError.of("file", "no row is left to make a trace of", "see what --dry-run says of the file")
    return np.argsort(spool.arrivals, kind="stable")


def _deal(rows: Integers, spool: Spool, wish: LoadWish) -> _Dealt:
    counts = np.cumsum(spool.turns[rows])
    available = int(counts[-1]) if len(counts) else 0
    wanted = available if wish.requests is None else wish.requests
    if not 0 < wanted <= available:
        message = f"load {wish.name} needs {max(wanted, 1)} requests, and {available} are left"
        raise DomainError.of("loads", message, "ask for less, or give a longer source")
    taken = rows[: int(np.searchsorted(counts, wanted)) + 1]
    return _Dealt(wish, taken, spool.arrivals[taken], spool.turns[taken])


def _segment(dealt: _Dealt, timing: Timing, number: int, turns: Turns) -> Segment:
    has_sessions = turns is not Turns.FIRST and bool((dealt.turns > 1).any())
    facts = {"name": dealt.wish.name, "requests": dealt.requests, "turns": turns.value if has_sessions else None}
    if dealt.wish.clients is not None:
        load = TraceLoad.model_validate(facts | {"clients": dealt.wish.clients, "duration_ns": 0})
        return Segment(load, dealt.rows, np.zeros(dealt.requests, dtype=np.int64))
    due_ns, duration_ns, note = _offsets(dealt, timing, number)
    rate_rps = dealt.wish.rate_rps or float(f"{dealt.requests * NS_PER_S / duration_ns:.6g}")
    load = TraceLoad.model_validate(facts | {"rate_rps": rate_rps, "duration_ns": duration_ns, "arrival": note})
    return Segment(load, dealt.rows, np.array(due_ns, dtype=np.int64))


def _offsets(dealt: _Dealt, timing: Timing, number: int) -> tuple[tuple[int, ...], int, ArrivalNote]:
    """(offsets, duration, how they came to be) of an open loop."""
    spread = timing.spread or (Spread.RECORDED if dealt.is_timed else Spread.POISSON)
    if spread is Spread.RECORDED:
        return _recorded(dealt)
    rate_rps = dealt.wish.rate_rps
    if rate_rps is None:
        message = f"load {dealt.wish.name} has no rate, and its arrivals are to be made"
        raise DomainError.of("loads", message, "write NAME=RATE")
    kind, seed, shape = ArrivalKind(spread.value), timing.seed + number, timing.burstiness
    duration_ns = round(dealt.requests / rate_rps * NS_PER_S)
    due_ns = arrivals(kind, rate_rps=rate_rps, duration_ns=duration_ns, seed=seed, burstiness=shape)
    note = ArrivalNote(
        kind=kind,
        seed=None if kind is ArrivalKind.CONSTANT else seed,
        burstiness=shape if kind is ArrivalKind.GAMMA else None,
    )
    return due_ns, duration_ns, note


def _recorded(dealt: _Dealt) -> tuple[tuple[int, ...], int, ArrivalNote]:
    """The recorded offsets; with a rate, at the one speed that gives it, so that bursts stay bursts."""
    if not dealt.is_timed:
        remedy = "give a rate, such as --loads steady=2, and --arrival poisson"
        raise DomainError.of("arrival", "the source records no times", remedy)
    offsets = np.repeat(dealt.arrivals - dealt.arrivals[0], dealt.turns)
    natural_ns = _duration(offsets, dealt.wish.name)
    if dealt.wish.rate_rps is None:
        return tuple(offsets.tolist()), natural_ns, ArrivalNote(kind="recorded")
    duration_ns = round(len(offsets) / dealt.wish.rate_rps * NS_PER_S)
    speed = natural_ns / duration_ns
    return scaled(offsets.tolist(), speed), duration_ns, ArrivalNote(kind="scaled", speed=speed)


def _duration(offsets: Integers, name: str) -> int:
    """The span and, after the last arrival, one mean gap: then count / duration is the rate of the gaps."""
    span_ns = int(offsets[-1])
    if span_ns == 0:
        message = f"the {len(offsets)} requests of load {name} have one and the same time, so there is no rate"
        raise DomainError.of("arrival", message, "make arrivals with --arrival poisson and a rate, or take more rows")
    return span_ns * len(offsets) // (len(offsets) - 1)


def _warmup(spool: Spool, rows: Integers, segments: list[Segment]) -> Segment:
    requests = int(spool.turns[rows].sum())
    rate_rps = next(_rates(segments), WARMUP_RPS)
    gap_ns = round(NS_PER_S / rate_rps)
    return Segment(None, rows, np.arange(requests, dtype=np.int64) * gap_ns)


def _rates(segments: list[Segment]) -> Iterator[float]:
    return (segment.load.rate_rps for segment in segments if segment.load and segment.load.rate_rps)
