"""The load generator against a server that wrote down what really happened."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow.parquet as pq
import pytest

from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.fakes.servers import StartedServer, null_engine
from tests.worker.replays import replay
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient, ReplayFailed, ReplayRecord, collect
from worker.replay.recording import read_stamps

ONE_TOKEN_EACH = [[0, 1]] * 5


@pytest.fixture
def engine() -> Generator[StartedServer, None, None]:
    with null_engine() as server:
        yield server


def request(number: int, due_ms: int, schedule: list[list[int]], **facts: Any) -> ReplayRequest:
    body = json.dumps({"model": "null", "null_schedule": schedule}).encode()
    return ReplayRequest(f"r-{number}", due_ms * NS_PER_MS, body, **facts)


def plan(socket_path: str, *requests: ReplayRequest, drain_ms: int = 60_000, cores: tuple[int, ...] = ()) -> ReplayPlan:
    return ReplayPlan(
        socket_path, None, None, "/v1/completions", requests, drain_ms * NS_PER_MS, cores, 100 * NS_PER_MS
    )


def referee(server: StartedServer) -> dict[str, dict[str, Any]]:
    return {entry["request_id"]: entry for entry in json.loads(server.get("/referee"))}


def order_of_events(record: ReplayRecord, seen: RequestObservation, entry: dict[str, Any]) -> list[int]:
    """Moments of one request by two processes' stamps on one clock; causality wants them ascending."""
    origin_ns = record.started_monotonic_ns
    client_ns = [origin_ns + seen.due_ns, origin_ns + (seen.sent_ns or 0)]
    return [*client_ns, entry["arrived_ns"], entry["departed_ns"][0], origin_ns + seen.chunk_ns[0]]


@pytest.mark.parametrize("schedule", [ONE_TOKEN_EACH, [[30, 1], [0, 8], [15, 3], [5, 2]], [[0, 1]], [[2, 4]] * 40])
async def test_chunk_schedules_come_back_exactly(
    engine: StartedServer, schedule: list[list[int]], tmp_path: Path
) -> None:
    record = await replay(plan(engine.socket_path, *(request(i, 20 * i, schedule) for i in range(10))), tmp_path)
    log = referee(engine)
    assert [seen.request_id for seen in record.observations] == [f"r-{i}" for i in range(10)]
    for seen in record.observations:
        entry = log[seen.request_id]
        assert seen.outcome is Outcome.SUCCESS
        assert list(seen.chunk_tokens) == [tokens for _, tokens in schedule] == entry["chunk_tokens"]
        assert seen.token_ids == tuple(range(sum(seen.chunk_tokens)))
        moments = order_of_events(record, seen, entry)
        assert moments == sorted(moments)
        received_ns = [record.started_monotonic_ns + at_ns for at_ns in seen.chunk_ns]
        assert all(left <= got for left, got in zip(entry["departed_ns"], received_ns, strict=True))


async def test_requests_are_sent_although_earlier_ones_have_not_finished(engine: StartedServer, tmp_path: Path) -> None:
    """All 60 are in flight at once: more than the pool that was opened beforehand."""
    slow = [[1500, 1], [0, 2]]
    record = await replay(plan(engine.socket_path, *(request(i, 10 * i, slow) for i in range(60))), tmp_path)
    log = referee(engine)
    assert all(seen.outcome is Outcome.SUCCESS for seen in record.observations)
    last_arrival_ns = max(entry["arrived_ns"] for entry in log.values())
    first_departure_ns = min(entry["departed_ns"][0] for entry in log.values())
    assert last_arrival_ns < first_departure_ns


async def test_the_drain_timeout_ends_the_wait_and_keeps_what_arrived(engine: StartedServer, tmp_path: Path) -> None:
    never = [[0, 2], [600_000, 1]]
    record = await replay(
        plan(engine.socket_path, request(0, 0, ONE_TOKEN_EACH), request(1, 10, never), drain_ms=500), tmp_path
    )
    quick, cut = record.observations
    assert quick.outcome is Outcome.SUCCESS
    assert (cut.outcome, cut.chunk_tokens, cut.finish_reason) == (Outcome.DEADLINE_MISS, (2,), None)


async def test_a_deadline_cuts_one_request_only(engine: StartedServer, tmp_path: Path) -> None:
    never = request(0, 0, [[0, 1], [600_000, 1]], deadline_ns=300 * NS_PER_MS)
    late = request(1, 600, ONE_TOKEN_EACH)
    record = await replay(plan(engine.socket_path, never, late), tmp_path)
    cut, other = record.observations
    assert (cut.outcome, other.outcome) == (Outcome.DEADLINE_MISS, Outcome.SUCCESS)
    assert cut.end_ns is not None
    assert cut.end_ns >= 300 * NS_PER_MS


async def test_nobody_listens(tmp_path: Path) -> None:
    record = await replay(plan(str(tmp_path / "none"), request(0, 0, ONE_TOKEN_EACH)), tmp_path)
    assert record.observations[0].outcome is Outcome.CONNECT_REFUSED
    assert record.observations[0].sent_ns is None


async def test_a_server_that_dies_truncates_what_runs_and_refuses_the_rest(
    engine: StartedServer, tmp_path: Path
) -> None:
    requests = [request(i, 100 * i, [[0, 1], [600_000, 1]]) for i in range(20)]
    replaying = asyncio.create_task(replay(plan(engine.socket_path, *requests, drain_ms=1000), tmp_path))
    await a_part_is_answered(engine)
    engine.process.kill()
    outcomes = [seen.outcome for seen in (await replaying).observations]
    assert outcomes[0] is Outcome.TRUNCATED
    assert outcomes[-1] is Outcome.CONNECT_REFUSED
    assert set(outcomes) == {Outcome.TRUNCATED, Outcome.CONNECT_REFUSED}


async def a_part_is_answered(server: StartedServer) -> None:
    # Another process has no event to wait for.
    while not any(entry["departed_ns"] for entry in (await asyncio.to_thread(referee, server)).values()):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def test_raw_reads_are_kept_as_evidence(engine: StartedServer, tmp_path: Path) -> None:
    record = await replay(plan(engine.socket_path, request(0, 0, ONE_TOKEN_EACH)), tmp_path)
    table = pq.read_table(record.raw_path)
    assert table.column_names == ["request_id", "at_ns", "bytes"]
    assert pq.ParquetFile(record.raw_path).metadata.row_group(0).column(2).compression == "ZSTD"
    raw = b"".join(table.column("bytes").to_pylist())
    assert raw.startswith(b"HTTP/1.1 200")
    assert raw.endswith(b"0\r\n\r\n")
    assert collect(tmp_path) == record


@asynccontextmanager
async def engine_on_tcp() -> AsyncGenerator[int, None]:
    """The port of a null engine."""
    argv = (sys.executable, "-m", "worker.replay.null_engine")
    server = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield int((await server.stdout.readline()).split()[-1])
    finally:
        server.kill()
        await server.wait()


async def test_tcp_works_as_the_unix_socket_does_and_the_kernel_stamps(tmp_path: Path) -> None:
    async with engine_on_tcp() as port:
        requests = tuple(request(i, i, [[5, 3]] * 5) for i in range(50))
        there = ReplayPlan(None, "127.0.0.1", port, "/v1/completions", requests, 60 * NS_PER_S, (), 0)
        record = await replay(there, tmp_path)
        answer = await asyncio.to_thread(httpx.get, f"http://127.0.0.1:{port}/referee")
    log = {entry["request_id"]: entry for entry in answer.json()}
    assert {seen.outcome for seen in record.observations} == {Outcome.SUCCESS}
    for seen in record.observations:
        events = order_of_events(record, seen, log[seen.request_id])
        assert events == sorted(events)
    assert read_stamps(tmp_path).stamped_by == "kernel"


@pytest.mark.parametrize("over_tcp", [True, False])
async def test_a_client_that_stands_still_stamps_late_only_where_the_kernel_does_not(
    over_tcp: bool, engine: StartedServer, tmp_path: Path
) -> None:
    slow = request(0, 0, [[0, 1], [1500, 1], [200, 1]])
    async with engine_on_tcp() as port:
        where = (None, "127.0.0.1", port) if over_tcp else (engine.socket_path, None, None)
        there = ReplayPlan(*where, "/v1/completions", (slow,), 60 * NS_PER_S, (), 0)
        departed = partial(_departed, None if over_tcp else engine.socket_path, port)
        replaying = asyncio.create_task(replay(there, tmp_path))
        await _until(departed, 1)
        (client,) = _working_in(tmp_path)
        client.suspend()
        await _until(departed, 2)
        resumed_ns = time.monotonic_ns()
        client.resume()
        record = await replaying
    arrived_ns = record.started_monotonic_ns + record.observations[0].chunk_ns[1]
    assert (arrived_ns < resumed_ns) is over_tcp


async def _until(departed: Callable[[], int], chunks: int) -> None:
    while await asyncio.to_thread(departed) < chunks:  # noqa: ASYNC110  (another process has no event to wait for)
        await asyncio.sleep(0.02)


def _departed(socket_path: str | None, port: int) -> int:
    """How many chunks the null engine has sent so far."""
    transport = httpx.HTTPTransport(uds=socket_path) if socket_path else None
    with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
        return sum(len(entry["departed_ns"]) for entry in client.get("/referee").json())


async def test_cancellation_stops_the_client_and_leaves_partial_evidence(engine: StartedServer, tmp_path: Path) -> None:
    requests = [request(0, 0, [[0, 1], [600_000, 1]]), request(1, 600_000, ONE_TOKEN_EACH)]
    replaying = asyncio.create_task(replay(plan(engine.socket_path, *requests), tmp_path))
    await a_part_is_answered(engine)
    clients = _children_running("worker.replay.child")
    assert clients
    replaying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replaying
    assert not clients & _children_running("worker.replay.child")
    running, never_due = collect(tmp_path).observations
    assert (running.outcome, running.chunk_tokens) == (Outcome.CLIENT_CANCEL, (1,))
    assert never_due.outcome is Outcome.NOT_SENT


def _children_running(module: str) -> set[int]:
    """Children of this process that run ``module``."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid() and module in command:
            found.add(int(entry.name))
    return found


async def test_a_client_that_cannot_run_says_why(engine: StartedServer, tmp_path: Path) -> None:
    with pytest.raises(ReplayFailed, match="Invalid argument"):
        await replay(plan(engine.socket_path, request(0, 0, ONE_TOKEN_EACH), cores=(4095,)), tmp_path)


def test_the_referee_can_be_emptied(engine: StartedServer) -> None:
    with engine.client() as client:
        assert client.post("/v1/completions", json={"max_tokens": 1}).status_code == httpx.codes.OK
        assert len(client.get("/referee").json()) == 1
        client.delete("/referee")
        assert client.get("/referee").json() == []


async def test_a_client_that_dies_fails_its_replay_only(engine: StartedServer, tmp_path: Path) -> None:
    slow = plan(engine.socket_path, request(0, 0, [[0, 1], [600_000, 1]]))
    async with ReplayClient() as client:
        replaying = asyncio.create_task(client.replay(slow, tmp_path / "first"))
        await a_part_is_answered(engine)
        for pid in _children_running("worker.replay.child"):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(ReplayFailed, match="-9"):
            await replaying
        while _working_in(tmp_path / "first"):  # noqa: ASYNC110  (the test's own time limit ends a wait that has no end)
            await asyncio.sleep(0.05)
        record = await client.replay(plan(engine.socket_path, request(1, 0, ONE_TOKEN_EACH)), tmp_path / "second")
    assert [seen.outcome for seen in record.observations] == [Outcome.SUCCESS]
    assert not _children_running("worker.replay.child")


async def test_a_client_that_cannot_start_is_a_failed_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ReplayFailed, match="ended with 1: before it began"):
        await replay(plan(str(tmp_path / "none"), request(0, 0, ONE_TOKEN_EACH)), tmp_path)


async def test_the_plan_with_its_prompts_does_not_stay(engine: StartedServer, tmp_path: Path) -> None:
    await replay(plan(engine.socket_path, request(0, 0, ONE_TOKEN_EACH)), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"reads.parquet", "stamps.json", "client.stderr"}


def _working_in(directory: Path) -> list[psutil.Process]:
    """Processes of any parent whose working directory this is."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()) == directory and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
