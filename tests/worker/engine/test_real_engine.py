"""The real vLLM on this processor: what it counts, what it resolves, and what it warns of."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.evidence import CounterDeltas
from app.domain.exposition import counter_deltas
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.resolution import differences
from app.domain.startup import WarningEffect
from app.settings import Settings
from tests.factories import BASELINE, make_manifest
from worker.engine import containment
from worker.engine.scrape import client, quiesced
from worker.engine.server import VllmServer
from worker.identity import inspect_runtime

pytestmark = pytest.mark.real_engine

NGRAM = {
    "name": "ngram-k4",
    "speculation": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5},
}
SERVING = {
    "dtype": "bfloat16",
    "max_model_len": 512,
    "max_num_seqs": 8,
    "prefix_caching": False,
    "enforce_eager": True,
    "kv_cache_space_gib": 1,
}
REQUESTS = 6
TOKENS = 48
PROCESSES_MIN = 3  # API server, engine core, worker


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def spec(arm: str, scratch: Path) -> LaunchSpec:
    settings = Settings()
    runtime = inspect_runtime(settings.runtime_root / "cpu")
    manifest = make_manifest(arms=[BASELINE, NGRAM], runtime=runtime.ref, serving=SERVING)
    target = str(settings.model_root / "tiny-target")
    return launch_spec(
        manifest,
        next(a for a in manifest.arms if a.name == arm),
        executable=str(runtime.executable),
        target_path=target,
        tokenizer_path=target,
        draft_path=None,
        socket_path=str(scratch / "s"),
        cache_root=str(scratch / "cache"),
        engine_cores="0",
        tree_cores=(0,),
    )


async def complete(socket_path: str, number: int) -> dict[str, Any]:
    """One streamed completion of a repetitive prompt; returns its usage chunk with the tokens it delivered."""
    body = {
        "model": "target",
        "prompt": [100 + number, 200, 300, 400] * 8,
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    async with client(socket_path, timeout_s=120) as engine:
        text = (await engine.post("/v1/completions", json=body)).raise_for_status().text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    tokens = [token for event in events for choice in event["choices"] for token in choice.get("token_ids") or []]
    usage = next(event for event in events if event.get("usage") and not event["choices"])
    return {**usage, "token_ids": tokens}


@dataclass(frozen=True, slots=True)
class Served:
    """What one server said of the requests, what it counted, what it resolved, and what fails preflight in its log."""

    answers: list[dict[str, Any]]
    deltas: CounterDeltas
    resolved: dict[str, str]
    warned: set[str]


async def serve(launch: LaunchSpec, scratch: Path) -> Served:
    """Start the server, send it the requests together, and stop it."""
    tag = f"real:{scratch.name}"
    async with VllmServer(launch, scratch / "log", tag=tag, startup_timeout_s=300) as server:
        resolved = (await server.configuration()).values
        assert len(containment.members(tag, leader=-1)) >= PROCESSES_MIN, "the tag is lost where titles overwrite it"
        assert server.memory()["kv_cache_tokens"]
        before = (await quiesced(server.socket_path)).exposition
        answers = await asyncio.gather(*(complete(server.socket_path, number) for number in range(REQUESTS)))
        deltas = counter_deltas(before, (await quiesced(server.socket_path)).exposition)
        warned = {w.name for w in server.warnings() if w.effect is WarningEffect.FAILS_PREFLIGHT}
    assert not containment.members(tag, leader=-1)
    return Served(list(answers), deltas, resolved, warned)


@pytest.fixture(scope="module")
def target_only() -> Served:
    """Target-only, started once: a server takes the better part of a minute."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        return asyncio.run(serve(spec("target-only", Path(directory)), Path(directory)))


def test_target_only_counts_every_token_and_nothing_speculative(target_only: Served) -> None:
    deltas, resolved = target_only.deltas, target_only.resolved
    assert [len(answer["token_ids"]) for answer in target_only.answers] == [TOKENS] * REQUESTS
    assert (deltas.request_success, deltas.generation_tokens) == (REQUESTS, REQUESTS * TOKENS)
    assert deltas.spec_decode_num_drafts is None
    assert resolved["speculative_config"] == "null"
    assert resolved["scheduler_config.async_scheduling"] == "false"
    assert target_only.warned == set()


def confounded(arm: LaunchSpec) -> LaunchSpec:
    """The arm with a shorter context, a prefix cache, and a model runner that the engine may choose."""
    argv = list(arm.argv)
    argv[argv.index("--max-model-len") + 1] = "256"
    argv[argv.index("--no-enable-prefix-caching")] = "--enable-prefix-caching"
    env = {name: value for name, value in arm.env.items() if name != "VLLM_USE_V2_MODEL_RUNNER"}
    return replace(arm, argv=tuple(argv), env=env)


async def test_a_confounded_pair_is_named_from_the_engines_own_documents(target_only: Served, scratch: Path) -> None:
    other = await serve(confounded(spec("ngram-k4", scratch)), scratch)
    assert differences(target_only.resolved, other.resolved) == {
        "model_config.max_model_len": ("512", "256"),
        "cache_config.enable_prefix_caching": ("false", "true"),
        "env.VLLM_USE_V2_MODEL_RUNNER": ("false", None),
    }
    assert other.warned == {"runner_replaced"}
