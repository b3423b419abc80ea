"""The loads that are tried: for each shape of answer a ladder of rates, climbed until the client falls behind.

The first token comes after 20 ms, of which 2 % are less than a millisecond, so that the strict limit
holds in every cell. Arrivals are Poisson, as in most traces; crowds arrive in bursts.
"""

from dataclasses import dataclass

from app.domain.arrival import ArrivalKind, arrivals
from app.domain.vocabulary import NS_PER_MS, NS_PER_S

FIRST_MS = 20
GAP_MS = 5
REQUESTS_WANTED = 200
"""For a 99th percentile that one stall does not make; as far as ``WINDOW_MAX_S`` allows."""
WINDOW_MAX_S = 5.0
BURSTINESS = 0.25
RATES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000)

Schedule = tuple[tuple[int, int], ...]
"""``(delay_ms, tokens)`` of each chunk, as the null engine takes it."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One load: requests of one schedule at a rate, offered for a while."""

    shape: str
    schedule: Schedule
    rate_rps: float
    window_s: float
    arrival: ArrivalKind = ArrivalKind.POISSON

    @property
    def answer_ns(self) -> int:
        """How long an answer takes."""
        return sum(delay_ms for delay_ms, _ in self.schedule) * NS_PER_MS

    def offsets_ns(self, seed: int) -> tuple[int, ...]:
        """When requests are due."""
        window_ns = round(self.window_s * NS_PER_S)
        return arrivals(self.arrival, rate_rps=self.rate_rps, duration_ns=window_ns, seed=seed, burstiness=BURSTINESS)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs from small to large. Climbing begins at ``start``; what lies below is only for hosts that fail there."""

    rungs: tuple[Rung, ...]
    start: int = 0


def full() -> tuple[Ladder, ...]:
    """About three minutes on a host that reaches far."""
    return (
        _ladder("short", SHORT, RATES[1:], start_rps=100, window_s=1.5, chunks_max=100_000),
        _ladder("stream", _steady(64), RATES[:-1], start_rps=50, window_s=1.5, chunks_max=100_000),
        _ladder("long", _steady(400), RATES[:6], start_rps=20, window_s=3, chunks_max=100_000),
        Ladder((_crowd(64, 2), _crowd(256, 2), _crowd(1024, 4), _crowd(4096, 4))),
    )


def quick() -> tuple[Ladder, ...]:
    """Half a minute: fewer rungs, shorter windows, shorter crowds."""
    return (
        _ladder("short", SHORT, (10, 50, 200, 500, 2000), start_rps=500, window_s=0.8, chunks_max=40_000),
        _ladder("stream", _steady(64), (5, 20, 100, 200, 1000), start_rps=200, window_s=0.8, chunks_max=40_000),
        Ladder((_crowd(256, 1), _crowd(1024, 1))),
    )


def rung(shape: str, schedule: Schedule, rate_rps: float, *, window_s: float, chunks_max: int) -> Rung:
    """As long as the window, longer where that holds too few requests, shorter where it holds too many chunks."""
    wanted_s = max(window_s, min(REQUESTS_WANTED / rate_rps, WINDOW_MAX_S))
    return Rung(shape, schedule, rate_rps, min(wanted_s, chunks_max / (rate_rps * len(schedule))))


def _ladder(
    shape: str, schedule: Schedule, rates: tuple[int, ...], *, start_rps: int, window_s: float, chunks_max: int
) -> Ladder:
    rungs = tuple(rung(shape, schedule, rate, window_s=window_s, chunks_max=chunks_max) for rate in rates)
    return Ladder(rungs, rates.index(start_rps))


def _steady(chunks: int) -> Schedule:
    """One token a chunk."""
    return ((FIRST_MS, 1), *(((GAP_MS, 1),) * (chunks - 1)))


SHORT: Schedule = ((FIRST_MS, 1), (GAP_MS, 8), (GAP_MS, 3), (GAP_MS, 2))
"""Few chunks of several tokens, as where drafts are accepted."""


def _crowd(concurrency: int, hold_s: int) -> Rung:
    """So many answers at once: each begins soon and ends when ``hold_s`` is over."""
    schedule = ((FIRST_MS, 1), (1000 * hold_s - FIRST_MS, 1))
    return Rung("crowd", schedule, concurrency / hold_s, hold_s, ArrivalKind.GAMMA)
