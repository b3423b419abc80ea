"""Run replays in pinned processes of their own and read what they recorded.

The load generator shares no interpreter, event loop or database with anything, so that
nothing but the engine decides when a reply arrives.
"""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_S
from worker.replay.child import PLAN_NAME, STDERR_NAME
from worker.replay.plan import ReplayPlan, encode_plan
from worker.replay.recording import READS_NAME, STAMPS_NAME, iterate_reads, read_stamps
from worker.replay.response import AnswerReader, observation

STOP_PATIENCE_S = 5.0
OVERTIME_S = 60.0
"""Beyond lead-in, last due time and drain: for start-up and for writing the recording."""

_ROOT = Path(__file__).resolve().parents[2]
_STDERR_TAIL = 2000


class ReplayFailed(RuntimeError):
    """The client process itself failed, so the run says nothing about the engine."""


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """Observations in the plan's order. ``raw_path``: zstd Parquet of (request_id, at_ns, bytes)."""

    observations: tuple[RequestObservation, ...]
    raw_path: Path
    stamps_path: Path
    """The other half of the evidence: stamps of each request, and how the client fared."""
    started_monotonic_ns: int
    priority: str
    """What the host granted the client: ``real-time``, or ``nice -10`` to ``nice 0``."""
    cpu_ns: int
    """Processor time of the client during the replay."""
    spun_ns: int
    """The part of it that was spent waiting for exact moments."""
    peak_rss_bytes: int
    """Of the client while it replayed."""


class ReplayClient:
    """The process that forks one child for each replay; an asynchronous context manager.

    Imports are paid once, and no replay finds the memory of another. It is started again where it has died.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()  # its child, if any, dies with it
            await self._process.wait()

    @property
    def pids(self) -> tuple[int, ...]:
        """The client's own process; what it forks are its children."""
        return () if self._process is None else (self._process.pid,)

    async def replay(self, plan: ReplayPlan, directory: Path) -> ReplayRecord:
        """Replay ``plan`` and parse what came back. Raises ``ReplayFailed``.

        Cancellation stops the replay (which still writes what it has; ``collect`` reads it) and re-raises.
        """
        directory = directory.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread((directory / PLAN_NAME).write_bytes, encode_plan(plan))
        returncode = await self._run(directory, (plan.lead_in_ns + plan.longest_ns()) / NS_PER_S + OVERTIME_S)
        if returncode != 0:
            raise ReplayFailed(f"the client process ended with {returncode}: {_stderr_tail(directory)}")
        return await asyncio.to_thread(collect, directory)

    async def _run(self, directory: Path, patience_s: float) -> int:
        process = await self._started()
        ending = asyncio.ensure_future(_ask(process, directory))
        try:
            return await asyncio.wait_for(asyncio.shield(ending), patience_s)
        except TimeoutError as error:
            raise ReplayFailed("the client process did not end in time and was stopped") from error
        finally:
            if not ending.done():
                await _stop(process, ending)

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            argv = (sys.executable, "-m", "worker.replay.child")
            self._process = await asyncio.create_subprocess_exec(*argv, cwd=_ROOT, stdin=pipe, stdout=pipe)
        return self._process


def collect(directory: Path) -> ReplayRecord:
    """Parse a finished (or canceled) replay's recording. Raises ``ReplayFailed`` where there is none."""
    try:
        stamps = read_stamps(directory)
        readers = {exchange.request_id: AnswerReader() for exchange in stamps.exchanges}
        for request_id, (at_ns, chunk) in iterate_reads(directory):
            readers[request_id].feed(at_ns, chunk)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReplayFailed(f"no readable recording in {directory.name}: {error}") from error
    return ReplayRecord(
        observations=tuple(observation(exchange, readers.pop(exchange.request_id)) for exchange in stamps.exchanges),
        raw_path=directory / READS_NAME,
        stamps_path=directory / STAMPS_NAME,
        started_monotonic_ns=stamps.started_monotonic_ns,
        priority=stamps.priority,
        cpu_ns=stamps.cpu_ns,
        spun_ns=stamps.spun_ns,
        peak_rss_bytes=stamps.peak_rss_bytes,
    )


async def _ask(process: asyncio.subprocess.Process, directory: Path) -> int:
    """Have the directory's plan replayed; the exit code of the replay, or of the process where that ended.

    Raises ``ReplayFailed``.
    """
    if process.stdin is None or process.stdout is None:
        raise ReplayFailed("the client process was started without pipes")
    with suppress(ConnectionError):  # it has ended, and its exit code says how
        process.stdin.write(f"{json.dumps(str(directory))}\n".encode())
        await process.stdin.drain()
    answer = await process.stdout.readline()
    return int(answer) if answer else await process.wait()


async def _stop(process: asyncio.subprocess.Process, ending: "asyncio.Future[int]") -> None:
    """Ask first, so that partial evidence is written; then insist."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(ending, STOP_PATIENCE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise


def _stderr_tail(directory: Path) -> str:
    """The replay's last words; those of a process that never came to a replay are in the worker's log."""
    said = directory / STDERR_NAME
    if not said.exists():
        return "before it began; the worker's log may say why"
    return said.read_bytes()[-_STDERR_TAIL:].decode("utf-8", "replace").strip()
