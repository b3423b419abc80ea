"""The sampler as a measurement uses it: it runs while this is entered, and nothing it does can fail a run.

A sampler that does not start, dies or falls silent is a fact of ``unobservable``; what it wrote until then stays.
"""

import asyncio
import os
import sys
import time
from bisect import bisect_left, bisect_right
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from app.domain.device import Device
from app.domain.series import Series
from worker import nvml
from worker.engine.containment import TAG_VARIABLE
from worker.telemetry.names import OF_DEVICE, OF_HOST
from worker.telemetry.plan import NS_PER_S, SamplingPlan, encode
from worker.telemetry.recording import Absence, Column, Follower, Recording, RecordingRefused

FILE_NAME = "telemetry.txt"
START_PATIENCE_S = 20.0
"""Opening a driver that nobody keeps loaded takes seconds."""
ANSWER_PATIENCE_S = 5.0
NOT_BEGUN = "the sampler has not begun yet"
SILENCE_MAX_NS = 5 * NS_PER_S
_ROOT = Path(__file__).resolve().parents[2]
_STDERR_TAIL = 500


class Telemetry:
    """One sampler, writing to ``path`` in ``directory``; an asynchronous context manager.

    The engine is found by its first pid or by its tag (then also before it is started). ``clients`` are pids of load
    generators, ``cores`` those that the sampler keeps to. ``recording`` is a sampler's file in the place of GPUs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        gpus: tuple[str, ...] = (),
        engine_pid: int | None = None,
        engine_tag: str | None = None,
        clients: tuple[int, ...] = (),
        cores: tuple[int, ...] = (),
        recording: Path | None = None,
    ) -> None:
        self.path = directory.resolve() / FILE_NAME
        self._stderr_path = self.path.with_suffix(".stderr")
        self._plan = SamplingPlan(
            path=str(self.path),
            gpus=gpus,
            engine_pid=engine_pid,
            engine_mark=engine_tag and f"{TAG_VARIABLE}={engine_tag}",
            clients=clients,
            worker_pid=os.getpid(),
            cores=cores,
            recording=recording and str(recording.resolve()),
        )
        self._process: asyncio.subprocess.Process | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._owed = 0
        self._late: str | None = None
        self._fault: str | None = None
        self._follower = Follower(self.path)

    async def __aenter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"")
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def sample(self) -> None:
        """Have everything read now: at a run's end, so that cumulative quantities cover it. First waits until it began.

        Returns, late, also where the sampler does not answer: that is then its fault.
        """
        process, beginning = self._process, self._beginning
        if process is None or process.stdin is None or beginning is None:
            return
        await asyncio.shield(beginning)
        if process.returncode is not None:
            return
        with suppress(ConnectionError):
            process.stdin.write(b"\n")
            await process.stdin.drain()
        self._owed += 1
        await self._answers(process, ANSWER_PATIENCE_S)

    def series(self, started_monotonic_ns: int, ended_monotonic_ns: int | None = None) -> tuple[Series, ...]:
        """What was sampled from the last reading before the start to the first after the end, or to now."""
        recording = self._read()
        if recording is None:
            return ()
        mark = {"source": "recording"} if recording.head.replayed else {}
        cut = (_cut(column, started_monotonic_ns, ended_monotonic_ns) for column in recording.columns.values())
        return tuple(
            Series(
                name=name,
                labels={} if device is None else {"device": device, **mark},
                at_ns=tuple(at_ns - started_monotonic_ns for at_ns in column.at_ns),
                values=tuple(column.values),
            )
            for (device, name), column in zip(recording.columns, cut, strict=True)
            if column.values
        )

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs as the sampler found them, or the recorded ones; none before the first ``sample`` is back."""
        recording = self._read()
        return () if recording is None else tuple(Device.model_validate(facts) for facts in recording.head.devices)

    @property
    def unobservable(self) -> dict[str, str]:
        """Quantity → why it was missing at some time since sampling began."""
        return self.unobservable_since(0)

    def unobservable_since(self, started_monotonic_ns: int, ended_monotonic_ns: int | None = None) -> dict[str, str]:
        """Quantity → why it was missing at some time since then, and before the end where there is one."""
        recording = self._read()
        fault = self._fault or self._ending() or self._late
        if recording is None or fault is not None:
            return dict.fromkeys((*OF_DEVICE, *OF_HOST), fault or NOT_BEGUN)
        if silence := _silence(recording, ended_monotonic_ns or time.monotonic_ns()):
            return dict.fromkeys((*OF_DEVICE, *OF_HOST), silence)
        reasons = {} if recording.head.devices or self._plan.gpus else dict.fromkeys(OF_DEVICE, "there is no GPU")
        for absence in recording.absences:
            begun = ended_monotonic_ns is None or absence.from_ns <= ended_monotonic_ns
            if begun and (absence.to_ns is None or absence.to_ns > started_monotonic_ns):
                reasons.setdefault(absence.name, _words(absence, recording.head.started_monotonic_ns))
        return reasons

    async def _start(self) -> None:
        """Start it, and let it begin in its own time: opening a driver takes long, and nobody has to wait for it."""
        pipe, argv = asyncio.subprocess.PIPE, (sys.executable, "-m", "worker.telemetry.process", encode(self._plan))
        with self._stderr_path.open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *argv, cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=stderr
            )
        self._owed = 1
        self._beginning = asyncio.create_task(self._answers(self._process, START_PATIENCE_S))

    async def _answers(self, process: asyncio.subprocess.Process, patience_s: float) -> None:
        """Wait for the lines that the sampler owes. One that is late is at fault until it has caught up."""
        try:
            async with asyncio.timeout(patience_s):
                while self._owed and process.stdout is not None:
                    if not await process.stdout.readline():
                        await process.wait()
                        return
                    self._owed -= 1
        except TimeoutError:
            self._late = f"the sampler did not answer within {patience_s:g} s"
        else:
            self._late = None

    async def _end(self) -> None:
        """Close its stdin, on which it ends in order; insist where it does not."""
        process, beginning = self._process, self._beginning
        if process is None or process.stdin is None or beginning is None:
            return
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.gather(beginning, process.wait()), ANSWER_PATIENCE_S)
        except TimeoutError:
            self._fault = f"the sampler did not end within {ANSWER_PATIENCE_S:g} s and was stopped"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _ending(self) -> str | None:
        """How the sampler ended, if not in order."""
        if self._process is None or self._process.returncode in {None, 0}:
            return None
        tail = self._stderr_path.read_bytes()[-_STDERR_TAIL:].decode(errors="replace").strip()
        said = f": {tail.splitlines()[-1]}" if tail else ""
        return f"the sampler ended early with {self._process.returncode}{said}"

    def _read(self) -> Recording | None:
        """The file so far; ``None`` before it has begun and, with a fault, where it is none."""
        if self._process is None:
            return None
        try:
            return self._follower.read()
        except RecordingRefused as refused:
            self._fault = self._fault or str(refused)
            return None


def devices(uuids: tuple[str, ...]) -> tuple[Device, ...]:
    """What the driver says of each of these GPUs; those that do not answer are left out."""
    return tuple(Device.model_validate(facts) for facts in nvml.facts(uuids))


def _silence(recording: Recording, until_ns: int) -> str | None:
    """Whether the newest sample is older than it may be at that time, or at the end of the file."""
    newest_ns = max(recording.newest_ns, recording.head.started_monotonic_ns)
    silence_ns = min(until_ns, recording.ended_ns or until_ns) - newest_ns
    return f"the sampler has been silent for {silence_ns / NS_PER_S:.0f} s" if silence_ns > SILENCE_MAX_NS else None


def _cut(column: Column, started_ns: int, ended_ns: int | None) -> Column:
    first = max(0, bisect_right(column.at_ns, started_ns) - 1)
    last = len(column.at_ns) if ended_ns is None else bisect_left(column.at_ns, ended_ns) + 1
    return Column(column.at_ns[first:last], column.values[first:last])


def _words(absence: Absence, began_ns: int) -> str:
    of = "" if absence.device is None else f"{absence.device}: "
    if absence.to_ns is None:
        since_s = (absence.from_ns - began_ns) / NS_PER_S
        return f"{of}{absence.reason}" + (f" (from {since_s:.1f} s after sampling began)" if since_s > 1 else "")
    return f"{of}{absence.reason} (for {(absence.to_ns - absence.from_ns) / NS_PER_S:.1f} s)"
