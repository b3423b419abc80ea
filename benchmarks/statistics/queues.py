"""Saturation, on simulated servers whose capacity is known, with and without speculation."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.saturation import over_blocks, queue_state
from app.domain.statistics import Floats
from app.domain.vocabulary import NS_PER_S, Saturation
from benchmarks.statistics.figures import Figure

FALSE_MAX: Final = 0.05
DETECTED_MIN: Final = 0.95
K: Final = 4


@dataclass(frozen=True, slots=True)
class Server:
    """Slots that each serve one request at a time; the unit of time is the mean service."""

    name: str
    slots: int
    window: float
    """In service times."""


SERVERS: Final = (
    Server("1 slot", 1, 400.0),
    Server("8 slots", 8, 60.0),
    Server("32 slots", 32, 55.0),
)
SERVICES: Final = ("exponential", "constant", "speculating")


def figures(conditions: int, blocks: tuple[int, ...], seed: int) -> Iterator[Figure]:
    """How often a condition is called SATURATED: seldom where it is stable, nearly always well above capacity."""
    for server in SERVERS:
        for service in SERVICES:
            for load in (0.8, 0.92, 1.3):
                for n in blocks:
                    rng = np.random.default_rng([seed, n, server.slots])
                    called = [_is_called(server, service, load, n, rng) for _ in range(conditions)]
                    yield _figure(f"{server.name}, {service}, {load:.0%} of capacity, {n} blocks", load, called)
    yield from _referee(seed)


def _figure(where: str, load: float, called: list[bool]) -> Figure:
    found, n = sum(called) / len(called), len(called)
    # What so few conditions leave open: three errors at the bar itself.
    slack = 3 * (FALSE_MAX * DETECTED_MIN / n) ** 0.5
    low, high = (0.0, FALSE_MAX + slack) if load < 1 else (DETECTED_MIN - slack, 1.0)
    return Figure("saturation", "SATURATED", where, found, n, low, high)


def _is_called(server: Server, service: str, load: float, blocks: int, rng: np.random.Generator) -> bool:
    return over_blocks([_run(server, service, load, rng) for _ in range(blocks)]) is Saturation.SATURATED


def _run(server: Server, service: str, load: float, rng: np.random.Generator) -> Saturation:
    arrivals = rng.poisson(load * server.slots * server.window)
    due = np.sort(rng.random(arrivals) * server.window)
    ends = served(due, services(service, arrivals, rng), server.slots)
    due_ns, ended_ns = ((times * NS_PER_S).astype(np.int64).tolist() for times in (due, np.sort(ends)))
    return queue_state(due_ns, ended_ns, service_ns=NS_PER_S)


def served(due: Floats, service: Floats, slots: int) -> Floats:
    """When each request ends: first come, first served (Lindley's recursion where there is one slot)."""
    if slots == 1:
        work = np.cumsum(service)
        return work + np.maximum.accumulate(due - (work - service))
    free, ends = [0.0] * slots, np.empty(len(due))
    for index, (at, lasts) in enumerate(zip(due.tolist(), service.tolist(), strict=True)):
        end = max(free[0], at) + lasts
        heapq.heapreplace(free, end)
        ends[index] = end
    return ends


def services(kind: str, n: int, rng: np.random.Generator) -> Floats:
    """Service times of mean 1. ``speculating``: steps until the tokens are there, some accepted with each."""
    if kind == "exponential":
        return rng.exponential(1.0, n)
    if kind == "constant":
        return np.ones(n)
    tokens, chance = rng.lognormal(4.0, 0.8, n), rng.beta(2.5, 1.5, n)
    emitted = sum(chance**position for position in range(K + 1))
    return np.ceil(tokens / emitted) / MEAN_STEPS


def _mean_steps() -> float:
    rng = np.random.default_rng(1)
    tokens, chance = rng.lognormal(4.0, 0.8, 1_000_000), rng.beta(2.5, 1.5, 1_000_000)
    return float(np.ceil(tokens / sum(chance**position for position in range(K + 1))).mean())


MEAN_STEPS: Final = _mean_steps()


def _referee(seed: int) -> Iterator[Figure]:
    """The simulator against what is known of M/M/1 and M/D/1 at 80% (method A17, G8): found / known."""
    rng = np.random.default_rng([seed, 8])
    n = 2_000_000
    due = np.cumsum(rng.exponential(1 / 0.8, n))
    sojourn = served(due, rng.exponential(1.0, n), 1) - due
    waited = served(due, np.ones(n), 1) - due - 1
    for what, found, known in (
        ("M/M/1 mean sojourn", sojourn.mean(), 5.0),
        ("M/M/1 p99 sojourn", np.quantile(sojourn, 0.99), 23.0259),
        ("M/D/1 mean wait", waited.mean(), 2.0),
    ):
        yield Figure("referee", f"{what}: found / known", f"known {known:g}", float(found) / known, n, 0.95, 1.05)
