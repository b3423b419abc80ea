"""The calibration itself: the real client, on its cores, against the null engine on the engine's."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from app.domain.client_range import ClientAttempt, ClientCell, ClientRange
from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_MS, NS_PER_S
from app.settings import Settings
from worker.accelerators import whole_host
from worker.calibrated import client_host
from worker.calibration import ladders
from worker.calibration.climbing import climb
from worker.calibration.ladders import Ladder, Rung
from worker.calibration.referee import Referee
from worker.calibration.scoring import failed, score
from worker.cores import split_cores, stolen_cpu_ns
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient, ReplayFailed

PROMPT_TOKENS = 128
LEAD_IN_NS = 200 * NS_PER_MS
DRAIN_TIMEOUT_NS = 10 * NS_PER_S
LOCK_ATTEMPTS = 40
LOCK_PAUSE_S = 0.5
_WARM_UP = ladders.rung("warm-up", ladders.SHORT, 100, window_s=0.5, chunks_max=1000)

Say = Callable[[str], None]
"""What is about to be tried. It is called between replays only: nothing is drawn while one runs."""


@dataclass(slots=True)
class Stand:
    """The client and the null engine, ready. ``priority`` is what the host granted the client last."""

    client: ReplayClient
    referee: Referee
    cores: tuple[int, ...]
    scratch: Path
    say: Say
    priority: str = field(default="unknown")

    async def attempt(self, rung: Rung, number: int) -> ClientAttempt:
        """Replay a rung once and judge it."""
        self.say(f"{rung.shape}, {rung.rate_rps:,.4g} requests/s, attempt {number}")
        plan, directory = self._plan(rung, number), self.scratch / "replay"
        await self.referee.forget()
        stolen_ns = stolen_cpu_ns()
        try:
            record = await self.client.replay(plan, directory)
        except ReplayFailed as error:
            return failed(len(plan.requests), _last_words(error))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self.priority = record.priority
        stolen_ns = stolen_cpu_ns() - stolen_ns
        log = await self.referee.log()
        return score(record.observations, record.started_monotonic_ns, log, stolen_ns)

    def _plan(self, rung: Rung, number: int) -> ReplayPlan:
        body = _body(rung)
        offsets = rung.offsets_ns(seed=number)
        return ReplayPlan(
            socket_path=self.referee.socket_path,
            host=None,
            port=None,
            path="/v1/completions",
            requests=tuple(ReplayRequest(f"{number}-{i}", due_ns, body) for i, due_ns in enumerate(offsets)),
            drain_timeout_ns=rung.answer_ns + DRAIN_TIMEOUT_NS,
            cores=self.cores,
            lead_in_ns=LEAD_IN_NS,
        )


@asynccontextmanager
async def open_stand(say: Say) -> AsyncGenerator[Stand, None]:
    """Client and null engine on their cores of this host, over the transport that engines are reached by."""
    cores = split_cores()
    with tempfile.TemporaryDirectory(prefix="verdraft-calibrate-") as scratch:
        async with Referee(Path(scratch) / "null.sock", cores.engine) as referee, ReplayClient() as client:
            yield Stand(client, referee, cores.client, Path(scratch), say)


async def calibrate(tried: Sequence[Ladder], *, quick: bool, say: Say) -> ClientRange:
    """Climb each ladder. Raises ``DomainError`` where the null engine does not start."""
    async with open_stand(say) as stand:
        await stand.attempt(_WARM_UP, 1)  # what the first replay pays for is not the client's pace
        cells: list[ClientCell] = [cell for ladder in tried for cell in await climb(ladder, stand.attempt)]
        priority = stand.priority
    return ClientRange(
        measured_at=datetime.now(UTC), quick=quick, priority=priority, host=client_host(), cells=tuple(cells)
    )


async def calibrate_alone(settings: Settings, tried: Sequence[Ladder], *, quick: bool, say: Say) -> ClientRange:
    """The same while no experiment runs here. Raises ``DomainError`` where one does."""
    for _ in range(LOCK_ATTEMPTS):  # an idle worker tries the locks for an instant at each wake
        with whole_host(settings) as ours:
            if ours:
                return await calibrate(tried, quick=quick, say=say)
        await asyncio.sleep(LOCK_PAUSE_S)
    message = "an experiment is running on this host, and each would disturb the other"
    raise DomainError.of("calibrate", message, "wait for it, or cancel it, then try again")


def _last_words(error: ReplayFailed) -> str:
    """Of a client that crashed, only the line that says why."""
    how, _, trace = str(error).partition(": Traceback")
    return f"{how}: {trace.splitlines()[-1].strip()}" if trace else how


def _body(rung: Rung) -> bytes:
    document = {
        "model": "null",
        "prompt": list(range(PROMPT_TOKENS)),
        "max_tokens": sum(tokens for _, tokens in rung.schedule),
        "stream": True,
        "null_schedule": rung.schedule,
    }
    return json.dumps(document, separators=(",", ":")).encode()
