"""Run a replay in its own pinned process and read what it recorded.

The load generator shares no interpreter, event loop or database with anything, so that
nothing but the engine decides when a reply arrives.
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from app.domain.observation import RequestObservation
from worker.replay.plan import ReplayPlan, encode_plan
from worker.replay.recording import READS_NAME, read_recording
from worker.replay.response import observe

PLAN_NAME = "plan.json"
STDERR_NAME = "client.stderr"
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
    started_monotonic_ns: int
    priority: str
    """What the host granted the client: ``real-time``, or ``nice -10`` to ``nice 0``."""


async def replay(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """Replay ``plan`` and parse what came back. Raises ``ReplayFailed``.

    Cancellation stops the client (which still writes what it has; ``collect`` reads it) and re-raises.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    plan_path = directory / PLAN_NAME
    await asyncio.to_thread(plan_path.write_bytes, encode_plan(plan))
    returncode = await _run_client(plan, plan_path, directory)
    if returncode != 0:
        raise ReplayFailed(f"the client process ended with {returncode}: {_stderr_tail(directory)}")
    return await asyncio.to_thread(collect, directory)


def collect(directory: Path) -> ReplayRecord:
    """Parse a finished (or canceled) replay's recording. Raises ``ReplayFailed`` where there is none."""
    try:
        recording = read_recording(directory)
    except (OSError, ValueError) as error:
        raise ReplayFailed(f"no readable recording in {directory.name}: {error}") from error
    return ReplayRecord(
        observations=tuple(observe(exchange) for exchange in recording.exchanges),
        raw_path=directory / READS_NAME,
        started_monotonic_ns=recording.started_monotonic_ns,
        priority=recording.priority,
    )


async def _run_client(plan: ReplayPlan, plan_path: Path, directory: Path) -> int:
    argv = (sys.executable, "-m", "worker.replay.child", str(plan_path), str(directory))
    with (directory / STDERR_NAME).open("wb") as stderr:
        client = await asyncio.create_subprocess_exec(*argv, cwd=_ROOT, stdin=asyncio.subprocess.DEVNULL, stderr=stderr)
    try:
        patience_s = (plan.lead_in_ns + plan.longest_ns()) / 1e9 + OVERTIME_S
        return await asyncio.wait_for(client.wait(), patience_s)
    except TimeoutError as error:
        raise ReplayFailed("the client process did not end in time and was stopped") from error
    finally:
        if client.returncode is None:
            await _stop(client)


async def _stop(client: asyncio.subprocess.Process) -> None:
    """Ask first, so that partial evidence is written; then insist."""
    client.terminate()
    try:
        await asyncio.wait_for(client.wait(), STOP_PATIENCE_S)
    except TimeoutError:
        client.kill()
        await client.wait()
    except asyncio.CancelledError:
        client.kill()
        raise


def _stderr_tail(directory: Path) -> str:
    return (directory / STDERR_NAME).read_bytes()[-_STDERR_TAIL:].decode("utf-8", "replace").strip()
