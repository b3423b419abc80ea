"""The life of a server process: ready or refused with its cause, and always gone afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.exposition import KV_CACHE_USAGE, PROMPT_TOKENS
from app.domain.launch import LaunchSpec
from app.domain.series import the_one
from app.domain.vocabulary import FailureClass
from worker.engine import containment
from worker.engine.scrape import Sampler, Scrape, ScrapeFailed, quiesced, series_of, server_info
from worker.engine.server import StartupFailed, VllmServer

SCRIPT = Path(__file__).with_name("scripted_server.py")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def server(mode: str, scratch: Path, *, startup_timeout_s: float = 30, canary_timeout_s: float = 30) -> VllmServer:
    spec = LaunchSpec(
        argv=(sys.executable, str(SCRIPT), mode, str(scratch / "s")),
        env={"PATH": "/usr/bin:/bin", "VLLM_CACHE_ROOT": str(scratch / "cache")},
        socket_path=str(scratch / "s"),
        served_model_name="target",
        cores=(0,),
    )
    return VllmServer(
        spec,
        scratch / "log",
        tag=f"test:{scratch.name}",
        startup_timeout_s=startup_timeout_s,
        canary_timeout_s=canary_timeout_s,
        term_grace_s=1,
    )


def tagged(scratch: Path) -> frozenset[int]:
    return containment.members(f"test:{scratch.name}", leader=-1)


async def failure_of(mode: str, scratch: Path, **timeouts: float) -> StartupFailed:
    with pytest.raises(StartupFailed) as caught:
        async with server(mode, scratch, **timeouts):
            pass
    assert not tagged(scratch)
    assert caught.value.log_path == scratch / "log"
    return caught.value


async def test_a_ready_server_answers_and_is_gone_afterwards(scratch: Path) -> None:
    async with server("serve", scratch) as running:
        assert running.alive()
        assert running.startup_ns > 0
        assert len(tagged(scratch)) == 1
        assert os.sched_getaffinity(next(iter(tagged(scratch)))) == {0}
        assert await server_info(running.socket_path) == {"cache_config.block_size": "128"}
    assert not running.alive()
    assert not tagged(scratch)


async def test_death_at_start_up_is_told_by_the_log(scratch: Path) -> None:
    error = await failure_of("die", scratch)
    assert error.failure.failure_class is FailureClass.CONFIG
    assert "Unsupported speculative method: 'mtp'" in error.failure.message


async def test_a_silent_start_up_is_a_hang(scratch: Path) -> None:
    error = await failure_of("hang", scratch, startup_timeout_s=1)
    assert error.failure.failure_class is FailureClass.HANG


async def test_a_canary_without_answer_is_a_hang(scratch: Path) -> None:
    error = await failure_of("mute", scratch, canary_timeout_s=0.5)
    assert error.failure.failure_class is FailureClass.HANG
    assert "canary" in error.failure.message


async def test_health_is_not_readiness(scratch: Path) -> None:
    error = await failure_of("first-request-dies", scratch)
    assert error.failure.failure_class is FailureClass.ENGINE_DEAD
    assert "shape is invalid" in error.failure.message


async def test_an_error_inside_the_canary_stream_is_seen(scratch: Path) -> None:
    error = await failure_of("error-in-stream", scratch)
    assert "engine died" in error.failure.message


@pytest.mark.parametrize("mode", ["deaf", "orphan"])
async def test_what_ignores_sigterm_or_flees_is_killed(mode: str, scratch: Path) -> None:
    async with server(mode, scratch):
        assert len(tagged(scratch)) == (2 if mode == "orphan" else 1)
    assert not tagged(scratch)


async def test_cancellation_during_start_up_leaves_nothing(scratch: Path) -> None:
    async def start() -> None:
        async with server("hang", scratch):
            pass

    task = asyncio.create_task(start())
    while not tagged(scratch):  # noqa: ASYNC110  (another process has no event of ours)
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not tagged(scratch)


async def test_a_server_at_rest_is_quiesced_and_sampled(scratch: Path) -> None:
    async with server("serve", scratch) as running:
        assert (await quiesced(running.socket_path)).exposition.value(PROMPT_TOKENS) == 7
        scrapes: list[Scrape] = []
        async with Sampler(running.socket_path, scrapes, period_s=0.01):
            while len(scrapes) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    usage = the_one(series_of(scrapes, scrapes[1].monotonic_ns), KV_CACHE_USAGE)
    assert usage is not None
    assert usage.at_ns[1] == 0
    assert len(usage.at_ns) == len(scrapes)
    assert set(usage.values) == {0.25}


async def test_a_busy_server_does_not_count_as_quiesced(scratch: Path) -> None:
    async with server("busy", scratch) as running:
        with pytest.raises(ScrapeFailed) as caught:
            await quiesced(running.socket_path, timeout_s=0.5)
    assert caught.value.failure.failure_class is FailureClass.HANG


async def test_a_dead_server_cannot_be_scraped(scratch: Path) -> None:
    with pytest.raises(ScrapeFailed) as caught:
        await quiesced(str(scratch / "nobody"))
    assert caught.value.failure.failure_class is FailureClass.ENGINE_DEAD


def test_only_orphans_of_dead_supervisors_are_swept(scratch: Path) -> None:
    """A supervisor that is killed leaves an engine; a living one's engine must be left alone."""
    start = "import os,sys,subprocess; from worker.engine.containment import tags; "
    sleeper = "subprocess.Popen(['sleep','600'],env=tags(sys.argv[1]),stdout=-3,stderr=-3).pid"
    abandoned = subprocess.run(
        [sys.executable, "-c", f"{start}print({sleeper})", scratch.name], check=True, capture_output=True, text=True
    )
    orphan = int(abandoned.stdout)
    ours = subprocess.Popen(["sleep", "600"], env=containment.tags(scratch.name))
    try:
        swept = containment.sweep_orphans()
        assert orphan in swept
        assert ours.pid not in swept
        assert ours.poll() is None
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
