"""Ways to build our client that were tried beside the one that was kept: ``--client 'own stamps'`` and so on.

ADR 11 says what became of each. They share the plan, the record and its reading; only what is tried differs.
"""

import asyncio
import gc
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import httptools
import uvloop

from benchmarks.replay.clients.verdraft import Verdraft
from worker.replay.agenda import Agenda
from worker.replay.arrival import READ_BYTES
from worker.replay.client import Connection, Pending
from worker.replay.clock import monotonic_ns
from worker.replay.exchange import Ending
from worker.replay.generator import ReplayLoop
from worker.replay.plan import ReplayPlan
from worker.replay.process import ReplayRecord, collect
from worker.replay.reads import ReadLog
from worker.replay.recording import Stamps, write_recording

_CONNECTIONS = 256

DESIGNS = tuple(
    Verdraft(name, "benchmarks.replay.clients.designs", function)
    for name, function in (
        ("kernel stamps", "kernel_stamps"),
        ("own stamps", "own_stamps"),
        ("uvloop protocol", "uvloop_protocol"),
        ("two processes", "two_processes"),
    )
)


async def kernel_stamps(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """What was kept, without the client process around it: what the designs below are to be compared with."""
    return _in_this_process(plan, directory, ReplayLoop)


async def own_stamps(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """A chunk arrived when it was read: no ancillary data, and every wait of the client counts."""
    return _in_this_process(plan, directory, _ReadingLoop)


async def two_processes(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """Every other request in a process of its own, both on the cores of the plan."""
    from worker.replay.process import ReplayClient  # noqa: PLC0415

    async def shard(number: int) -> ReplayRecord:
        async with ReplayClient() as client:
            part = replace(plan, requests=plan.requests[number::2])
            return await client.replay(part, directory / str(number))

    records = await asyncio.gather(shard(0), shard(1))
    observations = tuple(seen for record in records for seen in record.observations)
    cpu_ns, spun_ns = (sum(getattr(record, name) for record in records) for name in ("cpu_ns", "spun_ns"))
    return replace(records[0], observations=observations, cpu_ns=cpu_ns, spun_ns=spun_ns)


async def uvloop_protocol(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """``asyncio.Protocol`` and httptools on uvloop; a call that comes back at once stands in for finer timers."""
    directory.mkdir()
    log = ReadLog(directory / "reads")
    players: list[_Orchestra] = []

    def play() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_play(plan, log, players))

    _claim(plan)
    before_ns = time.process_time_ns()
    await asyncio.to_thread(play)  # this function has a loop of its own
    cpu_ns, player = time.process_time_ns() - before_ns, players[0]
    return _written(directory, player.agenda, log, origin_ns=player.origin_ns, cpu_ns=cpu_ns, spun_ns=0)


def _in_this_process(plan: ReplayPlan, directory: Path, loop_of: type[ReplayLoop]) -> ReplayRecord:
    directory.mkdir()
    log = ReadLog(directory / "reads")
    loop = loop_of(plan, log)
    _claim(plan)
    before_ns = time.process_time_ns()
    loop.run()
    cpu_ns = time.process_time_ns() - before_ns
    return _written(directory, loop.agenda, log, origin_ns=loop.origin_ns, cpu_ns=cpu_ns, spun_ns=loop.spun_ns)


def _claim(plan: ReplayPlan) -> None:
    os.sched_setaffinity(0, plan.cores)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    gc.collect()
    gc.freeze()
    gc.disable()


def _written(
    directory: Path, agenda: Agenda, log: ReadLog, *, origin_ns: int, cpu_ns: int, spun_ns: int
) -> ReplayRecord:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    stamps = Stamps(
        started_monotonic_ns=origin_ns,
        priority="real-time",
        stamped_by="not asked",
        cpu_ns=cpu_ns,
        spun_ns=spun_ns,
        peak_rss_bytes=0,
        exchanges=tuple(pending.exchange(origin_ns) for pending in agenda.everything),
    )
    write_recording(directory, stamps, log)
    return collect(directory)


class _ReadingLoop(ReplayLoop):
    def _open(self) -> Connection:
        connection = super()._open()
        # What is tried is inside.
        receive, clock = connection._sock.recv, self._clock  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        connection._receive = lambda: (receive(READ_BYTES), clock())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return connection


class _Orchestra:
    """The agenda on an event loop: sends what is due each time that the loop comes round."""

    def __init__(self, plan: ReplayPlan, log: ReadLog) -> None:
        self.agenda, self.log = Agenda(plan), log
        self.origin_ns = 0
        self.idle: list[_Player] = []
        self._left = len(plan.requests)
        self.done = asyncio.get_running_loop().create_future()

    def come_round(self) -> None:
        while self.idle and (pending := self.agenda.due(monotonic_ns())) is not None:
            self.idle.pop().send(pending)
        if not self.done.done():
            asyncio.get_running_loop().call_soon(self.come_round)

    def ended(self) -> None:
        self._left -= 1
        if not self._left:
            self.done.set_result(None)


class _Player(asyncio.Protocol):
    """One connection."""

    def __init__(self, orchestra: _Orchestra) -> None:
        self._orchestra = orchestra
        self._pending: Pending | None = None
        self._finished = False
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._orchestra.idle.append(self)

    def send(self, pending: Pending) -> None:
        self._pending = pending
        pending.sent_ns = monotonic_ns()
        self._transport.write(pending.payload)

    def data_received(self, data: bytes) -> None:
        at_ns, pending = monotonic_ns(), self._pending
        if pending is None:
            return
        self._orchestra.log.keep(pending.index, at_ns, data)
        self._parser.feed_data(data)
        if self._finished:
            self._finished, self._pending = False, None
            self._parser = httptools.HttpResponseParser(self)
            pending.end(Ending.COMPLETE, at_ns)
            self._orchestra.idle.append(self)
            self._orchestra.ended()

    def on_message_complete(self) -> None:
        self._finished = True


async def _play(plan: ReplayPlan, log: ReadLog, players: list[_Orchestra]) -> None:
    orchestra = _Orchestra(plan, log)
    players.append(orchestra)
    loop = asyncio.get_running_loop()
    for _ in range(min(2 * _CONNECTIONS, len(plan.requests))):
        await loop.create_connection(lambda: _Player(orchestra), plan.host or "", plan.port or 0)
    orchestra.origin_ns = monotonic_ns() + plan.lead_in_ns
    orchestra.agenda.begin(orchestra.origin_ns)
    orchestra.come_round()
    await orchestra.done
