"""A runtime with a defect: to the product one process like any other, and nothing of it is left afterwards."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.launch import LaunchSpec
from app.domain.vocabulary import FailureClass
from tests.fakes.defective import make_defective_runtime
from tests.fakes.defects import Defect, Kind
from tests.fakes.runtime import make_fake_runtime
from worker.engine import containment
from worker.engine.readiness import CanaryFailed, send_canary
from worker.engine.scrape import client
from worker.engine.server import StartupFailed, VllmServer
from worker.identity import inspect_runtime

SPECULATION = {"method": "ngram", "num_speculative_tokens": 4}
SWAPPED = Defect(Kind.TOKEN_SWAPPED, position=3)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def server(scratch: Path, *, speculates: bool, dials: dict[str, Any] | None = None) -> VllmServer:
    model = scratch / "model"
    model.mkdir(exist_ok=True)
    (model / "fake.json").write_text(json.dumps(dials or {}))
    root = scratch / "defective"
    if not root.exists():
        make_defective_runtime(root, make_fake_runtime(scratch / "engine"), SWAPPED)
    arm = ("--speculative-config", json.dumps(SPECULATION)) if speculates else ()
    vllm = str(root / "bin" / "vllm")
    spec = LaunchSpec(
        argv=(vllm, "serve", str(model), "--served-model-name", "t", "--uds", f"{scratch}/s", *arm),
        env={"PATH": "/usr/bin:/bin", "VLLM_CACHE_ROOT": str(scratch / "cache")},
        socket_path=f"{scratch}/s",
        served_model_name="t",
    )  # fmt: skip
    return VllmServer(spec, scratch / "log", tag=f"test:{scratch.name}", startup_timeout_s=30, term_grace_s=5)


def tagged(scratch: Path) -> frozenset[int]:
    return containment.members(f"test:{scratch.name}", leader=-1)


async def tokens(server: VllmServer) -> list[int]:
    async with client(server.socket_path) as engine:
        body = {"model": "t", "prompt": [1, 2, 3], "max_tokens": 8, "temperature": 0, "return_token_ids": True}
        return (await engine.post("/v1/completions", json=body)).json()["choices"][0]["token_ids"]


def test_it_is_known_by_the_engine_that_it_hides(scratch: Path) -> None:
    engine = make_fake_runtime(scratch / "engine")
    runtime = make_defective_runtime(scratch / "defective", engine, SWAPPED)
    assert inspect_runtime(runtime).ref == inspect_runtime(engine).ref


async def test_only_speculation_has_the_defect_and_both_are_gone_afterwards(scratch: Path) -> None:
    async with server(scratch, speculates=False) as sound:
        expected = await tokens(sound)
        assert len(tagged(scratch)) == 1
    assert not tagged(scratch)
    async with server(scratch, speculates=True) as defective:
        got = await tokens(defective)
        assert len(tagged(scratch)) == 2
    assert not tagged(scratch)
    assert [index for index in range(8) if got[index] != expected[index]] == [3]
    assert "exit" not in (scratch / "log").read_text()


async def test_an_engine_that_refuses_ends_it_with_the_same_words(scratch: Path) -> None:
    with pytest.raises(StartupFailed) as caught:
        async with server(scratch, speculates=True, dials={"faults": {"ngram": {"oom_text": True}}}):
            pass
    assert caught.value.failure.failure_class is FailureClass.OOM
    assert not tagged(scratch)


async def test_an_engine_that_dies_takes_it_along(scratch: Path) -> None:
    async with server(scratch, speculates=True, dials={"faults": {"ngram": {"die_after_requests": 1}}}) as running:
        with pytest.raises(CanaryFailed):
            await send_canary(running.socket_path, "t", 30)
        await gone(scratch)
        assert not running.alive()
        assert running.exit_code == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_signal_to_it_alone_ends_the_engine_too(scratch: Path, number: int) -> None:
    async with server(scratch, speculates=True) as running:
        leaders = [pid for pid in tagged(scratch) if os.getsid(pid) == pid]
        assert len(leaders) == 1
        os.kill(leaders[0], number)
        await gone(scratch)
        assert not running.alive()


async def gone(scratch: Path) -> None:
    """Until nothing is left; the test's own time limit ends a wait that has no end."""
    while tagged(scratch):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
