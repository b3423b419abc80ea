"""How much one core of client takes, and how much this host's kernel would let any client take."""

import json
import os
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app.domain.client_range import ClientAttempt
from app.domain.vocabulary import NS_PER_S
from benchmarks.replay.referee import referee
from benchmarks.replay.runs import CLIENT_CORE, REFEREE_CORE
from worker.calibration.scoring import score
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient, ReplayRecord

CHUNK_BYTES = 220
"""Of one token in vLLM's stream."""

_PAIRS = 64
_PROBES = 100_000
_KEPT_UP = 0.99
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Demand:
    """So many requests/s of so many chunks each, over a unix socket, as the product talks to its engines."""

    rate_rps: float
    chunks: int
    seconds: float = 5.0


DEMANDS = (Demand(2000, 8), Demand(1000, 64), Demand(1600, 64))


@dataclass(frozen=True, slots=True)
class Capacity:
    """What became of a demand. Busy: share of its core that a process used, from the first due time to the last end.

    The client's is without the time that it spent waiting for exact moments.
    """

    demand: Demand
    attempt: ClientAttempt
    """Judged as ``verdraft calibrate`` judges."""
    seconds: float
    client_busy: float
    referee_busy: float

    @property
    def whole(self) -> int:
        return self.attempt.requests - self.attempt.unserved - self.attempt.damaged

    @property
    def chunks_per_s(self) -> float:
        return self.whole * self.demand.chunks / self.seconds

    @property
    def chunks_per_core_s(self) -> float:
        """Chunks per second of the client's own processor time."""
        return self.chunks_per_s / self.client_busy

    @property
    def met(self) -> bool:
        """Every answer came back whole, and the last ended no more than a hundredth of the time too late."""
        return self.whole == self.attempt.requests and self.demand.seconds / self.seconds >= _KEPT_UP


async def take(demand: Demand) -> Capacity:
    """Offer it and count. Raises ``OSError`` and ``ReplayFailed``."""
    with TemporaryDirectory(prefix="bench-") as directory:
        socket_path = f"{directory}/s"
        with referee(REFEREE_CORE, socket_path=socket_path, gap_ms=1) as judged:
            before_s = _cpu_s(judged.pid)
            async with ReplayClient() as client:
                record = await client.replay(_plan(demand, socket_path), Path(directory) / "replay")
            referee_s = _cpu_s(judged.pid) - before_s
            attempt = score(record.observations, record.started_monotonic_ns, judged.log(), 0)
    return _capacity(demand, record, attempt, referee_s)


def _plan(demand: Demand, socket_path: str) -> ReplayPlan:
    body = json.dumps({"model": "null", "prompt": "go", "max_tokens": demand.chunks, "stream": True}).encode()
    due_ns = (round(i * NS_PER_S / demand.rate_rps) for i in range(round(demand.rate_rps * demand.seconds)))
    requests = tuple(ReplayRequest(f"r-{i}", at_ns, body) for i, at_ns in enumerate(due_ns))
    where = (socket_path, None, None, "/v1/completions")
    return ReplayPlan(*where, requests, 60 * NS_PER_S, (CLIENT_CORE,), NS_PER_S // 2)


def _capacity(demand: Demand, record: ReplayRecord, attempt: ClientAttempt, referee_s: float) -> Capacity:
    ends_ns = [o.end_ns for o in record.observations if o.end_ns is not None]
    answers_ns = [o.end_ns - o.due_ns for o in record.observations if o.end_ns is not None]
    seconds = (max(ends_ns) - min(answers_ns)) / NS_PER_S
    busy_s = (record.cpu_ns - record.spun_ns) / NS_PER_S
    return Capacity(demand, attempt, seconds, busy_s / seconds, referee_s / seconds)


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class KernelLimit:
    """Messages of a chunk's size through idle loops: what no client and no server of this host can exceed."""

    transport: str
    sends_per_core_s: float
    reads_per_core_s: float


def kernel_limits() -> Iterator[KernelLimit]:
    """One process sends on many sockets in turn, one on another core reads each message for itself."""
    for transport, family in (("tcp", socket.AF_INET), ("unix", socket.AF_UNIX)):
        pairs = [_pair(family) for _ in range(_PAIRS)]
        read_fd, write_fd = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write_fd, json.dumps(_reads_per_core_s([theirs for _, theirs in pairs])).encode())
            os._exit(0)
        sends = _sends_per_core_s([ours for ours, _ in pairs])
        reads = json.loads(os.read(read_fd, 100))
        os.waitpid(child, 0)
        yield KernelLimit(transport, sends, reads)


def _pair(family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    if family == socket.AF_UNIX:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ours, server.accept()[0]


def _sends_per_core_s(sockets: list[socket.socket]) -> float:
    os.sched_setaffinity(0, {REFEREE_CORE})
    message = b"x" * CHUNK_BYTES
    before_s = time.process_time()
    for number in range(_PROBES):
        sockets[number % _PAIRS].send(message)
    return _PROBES / (time.process_time() - before_s)


def _reads_per_core_s(sockets: list[socket.socket]) -> float:
    os.sched_setaffinity(0, {CLIENT_CORE})
    poll, by_fd = select.epoll(), {sock.fileno(): sock for sock in sockets}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    read = 0
    before_s = time.process_time()
    while read < _PROBES:
        for fd, _ in poll.poll():
            by_fd[fd].recv(CHUNK_BYTES)
            read += 1
    return _PROBES / (time.process_time() - before_s)
