"""Reads each group of quantities when it is due and writes it down with the time at which it was read.

A group that is due while another is read is late, never left out without a trace: its line says when it was read.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from worker.telemetry.host import HostReader
from worker.telemetry.names import FAST, OF_HOST, PROCESSES, SLOW, Reading
from worker.telemetry.plan import SamplingPlan
from worker.telemetry.readers import DeviceReader
from worker.telemetry.recorded import RecordedReader
from worker.telemetry.recording import Group, Head, Writer


@dataclass(slots=True)
class _Round:
    """One group of quantities: how to read it, how often, and when next."""

    group: Group
    read: Callable[[], Reading]
    period_ns: int
    due_ns: int


class Sampler:
    """Writes the file of one plan into an open descriptor."""

    def __init__(self, plan: SamplingPlan, descriptor: int) -> None:
        self._devices = _device_reader(plan)
        self._rounds = [*_device_rounds(plan, self._devices, host := HostReader(plan)), _host_round(plan, host)]
        self._writer = Writer(descriptor, self._head(plan))

    def take_due(self) -> int:
        """Read what is due; returns the nanoseconds until something is due again."""
        for number, each in enumerate(self._rounds):
            if each.due_ns <= time.monotonic_ns():
                self._take(number, each)
        return max(0, min(each.due_ns for each in self._rounds) - time.monotonic_ns())

    def take_all(self) -> None:
        """Read everything now, so that what happened until now is covered."""
        for number, each in enumerate(self._rounds):
            self._take(number, each)

    def end(self) -> None:
        """Close the file in order."""
        self._writer.end(time.monotonic_ns())

    def _take(self, number: int, each: _Round) -> None:
        before_ns = time.monotonic_ns()
        reading = each.read()
        after_ns = time.monotonic_ns()
        self._writer.add(number, (before_ns + after_ns) // 2, reading)
        if each.due_ns <= after_ns:
            each.due_ns = max(each.due_ns + each.period_ns, after_ns)

    def _head(self, plan: SamplingPlan) -> Head:
        return Head(
            started_monotonic_ns=time.monotonic_ns(),
            started_wall_ns=time.time_ns(),
            groups=tuple(each.group for each in self._rounds),
            devices=self._devices.facts() if self._devices else (),
            replayed=plan.recording and Path(plan.recording).name,
        )


def _device_reader(plan: SamplingPlan) -> DeviceReader | None:
    if plan.recording is not None:
        return RecordedReader(Path(plan.recording))
    if not plan.gpus:
        return None
    from worker.telemetry.device import NvmlReader  # noqa: PLC0415  (its library takes longer to load than all else)

    return NvmlReader(plan.gpus)


def _device_rounds(plan: SamplingPlan, devices: DeviceReader | None, host: HostReader) -> list[_Round]:
    if devices is None:
        return []
    now = time.monotonic_ns()
    rounds: list[_Round] = []
    for uuid in devices.uuids:
        rounds += [
            _Round(Group(uuid, FAST), lambda u=uuid: devices.fast(u), plan.fast_ns, now),
            _Round(Group(uuid, SLOW), lambda u=uuid: devices.slow(u), plan.slow_ns, now),
            _Round(Group(uuid, PROCESSES), lambda u=uuid: devices.processes(u, host.engine_pids), plan.host_ns, now),
        ]
    return rounds


def _host_round(plan: SamplingPlan, host: HostReader) -> _Round:
    return _Round(Group(None, OF_HOST), host.read, plan.host_ns, time.monotonic_ns())
