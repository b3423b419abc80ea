"""What processors and clocks of the host did, and whose work it was.

Linux counts a processor's busy time by ticks and a process's by the scheduler, so that one less the other is good to
about 25 ms a second, and may dip.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from worker.telemetry.names import (
    CLOCK_OFFSET,
    ENGINE_CPU,
    ENGINE_RSS,
    FOREIGN_CPU,
    HARNESS_CPU,
    SAMPLER_CPU,
    STOLEN_CPU,
    Reading,
)
from worker.telemetry.plan import SamplingPlan
from worker.telemetry.processes import Census, Tree, usage

NO_ENGINE_NAMED = "no engine was named to the sampler"
NO_ENGINE_FOUND = "no process of the engine was found"
NOT_COUNTED = "this kernel's /proc/stat counts no processor time"
_STAT = Path("/proc/stat")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds of all processors since boot; ``busy`` is without waiting for disks and without what was stolen."""

    busy_s: float
    stolen_s: float


def processor_time() -> ProcessorTime | None:
    """The first line of ``/proc/stat``; ``None`` where it is all zeros, as in some sandboxes."""
    with _STAT.open("rb") as stat:
        ticks = [int(column) for column in stat.readline().split()[1:]]
    if not any(ticks):
        return None
    user, nice, system, _idle, _waiting, irq, soft_irq, stolen = ticks[:8]
    return ProcessorTime((user + nice + system + irq + soft_irq) / _TICKS_PER_S, stolen / _TICKS_PER_S)


@dataclass(frozen=True, slots=True)
class _Spent:
    """Processor seconds at one moment, each since some beginning of its own."""

    processors: ProcessorTime | None
    engine_s: float
    harness_s: float
    sampler_s: float


class HostReader:
    """Reads the host for one plan; cumulative quantities of the host count from the first reading."""

    def __init__(self, plan: SamplingPlan) -> None:
        self._named = plan.engine_pid is not None or plan.engine_mark is not None
        self._engine = Tree(() if plan.engine_pid is None else (plan.engine_pid,), plan.engine_mark)
        self._clients = Tree(plan.clients)
        self._census = Census(self._engine, self._clients)
        self._worker_pid = plan.worker_pid
        self._worker_s = 0.0
        self._first: _Spent | None = None

    def read(self) -> Reading:
        """All quantities of the host now."""
        self._census.take()
        now = self._spent()
        first = self._first = self._first or now
        harness_s, sampler_s = now.harness_s - first.harness_s, now.sampler_s - first.sampler_s
        ours_s = now.engine_s - first.engine_s + harness_s + sampler_s
        return {
            CLOCK_OFFSET: clock_offset_ns(),
            HARNESS_CPU: harness_s,
            SAMPLER_CPU: sampler_s,
            **_of_processors(now.processors, first.processors, ours_s),
            **self._of_engine(),
        }

    def engine_pids(self) -> frozenset[int]:
        """The engine's processes at this moment."""
        self._census.take()
        return frozenset(self._engine.members)

    def _spent(self) -> _Spent:
        return _Spent(
            processor_time(), self._engine.cpu_s, self._clients.cpu_s + self._of_worker_s(), time.process_time()
        )

    def _of_worker_s(self) -> float:
        found = None if self._worker_pid is None else usage(self._worker_pid)
        if found is not None:
            self._worker_s = found.own_ticks / _TICKS_PER_S
        return self._worker_s

    def _of_engine(self) -> Reading:
        if not self._engine.members:
            reason = NO_ENGINE_FOUND if self._named else NO_ENGINE_NAMED
            return {ENGINE_RSS: reason, ENGINE_CPU: reason}
        return {ENGINE_RSS: self._engine.rss_bytes, ENGINE_CPU: self._engine.cpu_s}


def clock_offset_ns() -> int:
    """Wall clock less monotonic clock, the latter taken on both sides of the former."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return wall - (before + time.monotonic_ns()) // 2


def _of_processors(now: ProcessorTime | None, first: ProcessorTime | None, ours_s: float) -> Reading:
    if now is None or first is None:
        return {FOREIGN_CPU: NOT_COUNTED, STOLEN_CPU: NOT_COUNTED}
    return {FOREIGN_CPU: now.busy_s - first.busy_s - ours_s, STOLEN_CPU: now.stolen_s - first.stolen_s}
