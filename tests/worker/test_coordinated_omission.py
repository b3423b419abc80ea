"""A server that stands still for a second: open loop, everyone who was due then shows how long was left of it."""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.domain.latency import e2e_ns, ttft_ns
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.fakes.servers import StartedServer, null_engine
from tests.worker.replays import replay
from worker.replay.plan import ReplayPlan, ReplayRequest

FREEZE_S = 1.0
GAP_MS = 25
REQUESTS = 80
EDGE_NS = 100 * NS_PER_MS
"""Who was due this shortly before the thaw may have been sent after it on a host that stumbles."""


@pytest.fixture
def engine() -> Iterator[StartedServer]:
    with null_engine() as server:
        yield server


@dataclass(frozen=True, slots=True)
class Frozen:
    """A replay during which the server stood still; offsets count from the replay's start."""

    requests: tuple[ReplayRequest, ...]
    seen: tuple[RequestObservation, ...]
    from_ns: int
    until_ns: int

    @property
    def meanwhile(self) -> list[tuple[ReplayRequest, RequestObservation]]:
        """Those that the plan, not the client, made due in the freeze."""
        pairs = zip(self.requests, self.seen, strict=True)
        return [(r, s) for r, s in pairs if self.from_ns < r.due_ns < self.until_ns - EDGE_NS]

    def shows(self, planned: ReplayRequest, seen: RequestObservation) -> bool:
        """Whether it was sent all the same, and its latencies hold what was left of the freeze when it was due."""
        ttft, e2e, left_ns = ttft_ns(seen), e2e_ns(seen), self.until_ns - planned.due_ns
        if ttft is None or e2e is None or seen.sent_ns is None:
            return False
        return seen.due_ns == planned.due_ns and seen.sent_ns < self.until_ns and left_ns <= ttft <= e2e


async def frozen(engine: StartedServer, directory: Path, clients: int | None = None) -> Frozen:
    """Replay, stop the server's process once it has answered somebody, and let it go on after a second."""
    body = json.dumps({"model": "null", "null_schedule": [[GAP_MS, 1], [0, 2]]}).encode()
    requests = tuple(ReplayRequest(f"r-{i}", i * GAP_MS * NS_PER_MS, body) for i in range(REQUESTS))
    plan = ReplayPlan(engine.socket_path, None, None, "/v1/completions", requests, 60 * NS_PER_S, (), 0, clients)
    replaying = asyncio.create_task(replay(plan, directory))
    while not await asyncio.to_thread(somebody_is_answered, engine):  # noqa: ASYNC110  (another process has no event)
        await asyncio.sleep(0.02)
    engine.process.send_signal(signal.SIGSTOP)
    stopped_ns = time.monotonic_ns()
    await asyncio.sleep(FREEZE_S)
    resumed_ns = time.monotonic_ns()
    engine.process.send_signal(signal.SIGCONT)
    record = await replaying
    origin_ns = record.started_monotonic_ns
    return Frozen(requests, record.observations, stopped_ns - origin_ns, resumed_ns - origin_ns)


def somebody_is_answered(engine: StartedServer) -> bool:
    return any(entry["departed_ns"] for entry in json.loads(engine.get("/referee")))


async def test_everyone_who_was_due_shows_what_was_left_of_the_freeze(engine: StartedServer, tmp_path: Path) -> None:
    run = await frozen(engine, tmp_path)
    assert {seen.outcome for seen in run.seen} == {Outcome.SUCCESS}
    assert len(run.meanwhile) >= (FREEZE_S * NS_PER_S - 2 * EDGE_NS) / (GAP_MS * NS_PER_MS)
    assert [planned.request_id for planned, seen in run.meanwhile if not run.shows(planned, seen)] == []


async def test_a_client_that_waits_for_its_answers_would_have_hidden_it(engine: StartedServer, tmp_path: Path) -> None:
    """The control: in a closed loop of one, one request meets the freeze and the others are sent when it is over."""
    run = await frozen(engine, tmp_path, clients=1)
    slow = [seen for seen in run.seen if (ttft_ns(seen) or 0) >= FREEZE_S * NS_PER_S / 2]
    assert len(slow) == 1
    assert not any(run.shows(planned, seen) for planned, seen in run.meanwhile[1:])
