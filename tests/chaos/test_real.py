"""The main rows of the crash matrix again, with the real vLLM: its processes, its start-up, its way of dying."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from app import embedded
from app.demo.workloads import build_traces, demo_loads
from app.domain.lifecycle import RunState, SessionState
from app.domain.trace import Trace, TraceLoad
from app.domain.vocabulary import WARMUP, FailureClass
from tests.chaos.house import House, Watched, command, engines, experiment
from tests.factories import BASELINE

pytestmark = pytest.mark.real_engine

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
FIELDS: dict[str, Any] = {"serving": SERVING, "loads": LOADS, "arms": [BASELINE]}
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


async def killed_while_measuring(house: House, trace: Trace, process: str) -> None:
    """The engine's end is a finding: recorded, not tried again, and nothing of it stays."""
    async with experiment(house, TARGET, trace, name=f"killed-{process.lower()}", **FIELDS) as watched:
        await watched.reaches("MEASURING")
        [pid] = [pid for pid in engines(house) if title(pid) == process]
        house.kill(pid)
        assert (await watched.ends()).state == "FINISHED"
        assert watched.attempts == [1]
        [session] = (await watched.evidence()).sessions
        assert session.state is SessionState.FAILED
        assert session.failure is not None
        assert session.failure.failure_class in DEAD
        watched.assert_nobody_left()


def title(pid: int) -> str:
    """``api`` for the server, ``core`` for its engine core, by what they call themselves."""
    line = command(pid)
    if "EngineCore" in line:
        return "core"
    return "api" if "vllm serve" in line or "/vllm" in line or "APIServer" in line else ""


async def test_api_server_killed(house: House, trace: Trace) -> None:
    await killed_while_measuring(house, trace, "api")


async def test_engine_core_killed(house: House, trace: Trace) -> None:
    await killed_while_measuring(house, trace, "core")


async def measured_again(watched: Watched, attempts: int) -> None:
    """It ends whole, in the attempt that is expected, with what was half measured kept beside it."""
    assert (await watched.ends()).state == "FINISHED"
    assert watched.attempts == [attempts]
    await watched.assert_whole()


async def test_replay_process_killed(house: House, trace: Trace) -> None:
    async with experiment(house, TARGET, trace, name="replay-killed", **FIELDS) as watched:
        await watched.reaches("MEASURING")
        house.kill(await house.replaying())
        await measured_again(watched, 2)
        assert [r.state for r in (await watched.evidence()).runs].count(RunState.LOST) <= 1


async def test_celery_child_killed(house: House, trace: Trace) -> None:
    async with experiment(house, TARGET, trace, name="child-killed", **FIELDS) as watched:
        await watched.reaches("MEASURING")
        house.kill(house.holder())
        await measured_again(watched, 2)


async def test_celery_parent_killed_while_the_engine_starts(house: House, trace: Trace) -> None:
    async with experiment(house, TARGET, trace, name="parent-killed", **FIELDS) as watched:
        await watched.reaches("STARTING")
        house.kill(house.parent)
        assert house.worker is not None
        house.worker.wait()
        house.start_worker()
        await measured_again(watched, 1)


async def test_redis_flushed_and_stopped_and_postgres_restarted(house: House, trace: Trace) -> None:
    async with experiment(house, TARGET, trace, name="services", **FIELDS) as watched:
        await watched.reaches("WARMING")
        embedded._redis(house.home).flushall()
        embedded.stop_redis(house.home)
        await watched.reaches("MEASURING")
        embedded.stop_postgres(house.home)
        embedded.start_postgres(house.home)
        await measured_again(watched, 1)
    embedded.start_redis(house.home)
