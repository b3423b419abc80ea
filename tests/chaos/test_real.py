"""The main rows of the crash matrix again, with the real vLLM: its processes, its start-up, its way of dying."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from app import embedded
from app.demo.workloads import build_traces, demo_loads
from app.domain.lifecycle import SessionState
from app.domain.trace import Trace, TraceLoad
from app.domain.vocabulary import WARMUP, FailureClass
from tests.chaos.house import House, command, engines, experiment
from tests.factories import BASELINE, NGRAM

pytestmark = [pytest.mark.real_engine, pytest.mark.long, pytest.mark.timeout(1200)]  # up to five starts in one row

TARGET = "tiny-target"
REQUESTS = 20
SERVING = {
    "dtype": "float32",
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "prefix_caching": False,
    "enforce_eager": True,
    "kv_cache_space_gib": 1,
}
LOADS = [{"name": "low", "regime": "latency", "rate_rps": 2.0}]
FIELDS: dict[str, Any] = {"serving": SERVING, "loads": LOADS, "arms": [BASELINE, NGRAM]}
DEAD = {FailureClass.ENGINE_DEAD, FailureClass.OOM}
"""A killed process looks like one that the kernel killed for memory."""


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as home:
        house = House(Path(home), {})
        house.start_worker()
        try:
            yield house
        finally:
            house.close()


@pytest.fixture(scope="module")
def trace(house: House) -> Trace:
    """Ten seconds of the demo's requests, one arm, one load: each row costs one start of a server."""
    tokenizer = Tokenizer.from_file(str(house.settings.model_root / TARGET / "tokenizer.json"))
    whole = build_traces(tokenizer, demo_loads(2.0, 4.0))[0]
    load = whole.header.loads[0]
    chosen = whole.of_load(load.name)[:REQUESTS]
    part = TraceLoad(name="low", rate_rps=load.rate_rps, requests=len(chosen), duration_ns=load.duration_ns)
    return Trace(
        header=whole.header.model_copy(update={"loads": (part,)}),
        requests=(*whole.of_load(WARMUP), *(r.model_copy(update={"load": "low"}) for r in chosen)),
    )


async def test_api_server_killed_and_engine_core_killed(house: House, trace: Trace) -> None:
    """An engine's end is a finding: recorded, not tried again, and nothing of it stays."""
    async with experiment(house, TARGET, trace, name="killed", **FIELDS) as watched:
        for process, done in (("api", 0), ("core", 1)):
            await watched.until(lambda now, n=done: now.sessions_done == n)
            await watched.reaches("MEASURING")
            house.kill(next(pid for pid in engines(house) if role(pid) == process))
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        sessions = (await watched.evidence()).sessions
        assert [s.state for s in sessions] == [SessionState.FAILED] * 2
        assert {s.failure.failure_class for s in sessions if s.failure} <= DEAD
        watched.assert_nobody_left()


def role(pid: int) -> str:
    """``core`` for the process that calls itself the engine core, ``api`` for the server that started it."""
    return "core" if "EngineCore" in command(pid) else "api" if "serve" in command(pid) else "other"


async def test_replay_process_killed_and_then_the_celery_child(house: House, trace: Trace) -> None:
    async with experiment(house, TARGET, trace, name="again", **FIELDS) as watched:
        await watched.reaches("MEASURING")
        house.kill(await house.replaying())
        await watched.until(lambda now: now.sessions_done == 1 and watched.attempts == [2])
        await watched.reaches("MEASURING")
        house.kill(house.holder())
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [3]
        await watched.assert_whole()


async def test_celery_parent_killed_then_redis_flushed_and_stopped_and_postgres_restarted(
    house: House, trace: Trace
) -> None:
    async with experiment(house, TARGET, trace, name="services", **FIELDS) as watched:
        await watched.reaches("STARTING")
        house.kill(house.parent)
        assert house.worker is not None
        house.worker.wait()
        house.start_worker()
        await watched.reaches("WARMING")
        embedded._redis(house.home).flushall()
        embedded.stop_redis(house.home)
        await watched.reaches("MEASURING")
        embedded.stop_postgres(house.home)
        embedded.start_postgres(house.home)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        await watched.assert_whole()
    embedded.start_redis(house.home)
