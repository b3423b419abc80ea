"""The real vLLM on this processor: its own accounts of speculation must agree to the last token."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.evidence import CounterDeltas
from app.domain.exposition import counter_deltas
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.observation import SpeculationCounts
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


async def serve(arm: str, scratch: Path) -> tuple[list[dict[str, Any]], CounterDeltas, dict[str, str]]:
    """Start the arm, send the requests together, and stop; what they said, what was counted, what was resolved."""
    tag = f"real:{scratch.name}"
    async with VllmServer(spec(arm, scratch), scratch / "log", tag=tag, startup_timeout_s=300) as server:
        resolved = (await server.configuration()).values
        assert len(containment.members(tag, leader=-1)) >= PROCESSES_MIN, "the tag is lost where titles overwrite it"
        assert server.memory()["kv_cache_tokens"]
        before = await quiesced(server.socket_path)
        answers = await asyncio.gather(*(complete(server.socket_path, number) for number in range(REQUESTS)))
        deltas = counter_deltas(before, await quiesced(server.socket_path))
    assert not containment.members(tag, leader=-1)
    return list(answers), deltas, resolved


async def test_target_only_counts_every_token_and_nothing_speculative(scratch: Path) -> None:
    answers, deltas, resolved = await serve("target-only", scratch)
    assert [len(answer["token_ids"]) for answer in answers] == [TOKENS] * REQUESTS
    assert (deltas.request_success, deltas.generation_tokens) == (REQUESTS, REQUESTS * TOKENS)
    assert deltas.spec_decode_num_drafts is None
    assert resolved["speculative_config"] == "null"
    assert resolved["scheduler_config.async_scheduling"] == "false"


async def test_ngram_per_request_sums_equal_the_counters_exactly(scratch: Path) -> None:
    answers, deltas, resolved = await serve("ngram-k4", scratch)
    counts = [SpeculationCounts.model_validate(answer["metrics"]["speculative_decoding"]) for answer in answers]
    assert sum(c.num_accepted_draft_tokens for c in counts) == deltas.spec_decode_num_accepted_tokens
    assert sum(c.num_draft_tokens for c in counts) == deltas.spec_decode_num_draft_tokens
    assert sum(c.num_spec_steps for c in counts) == deltas.spec_decode_num_drafts
    by_position = [
        sum(accepted > position for c in counts for accepted in c.per_step_accepted) for position in range(4)
    ]
    assert tuple(by_position) == deltas.spec_decode_num_accepted_tokens_per_pos
    assert deltas.spec_decode_num_accepted_tokens
    assert resolved["speculative_config.method"] == "ngram"


def unchanged(arm: LaunchSpec) -> LaunchSpec:
    return arm


def confounded(arm: LaunchSpec) -> LaunchSpec:
    """The arm with a shorter context, a prefix cache, and a model runner that the engine may choose."""
    argv = list(arm.argv)
    argv[argv.index("--max-model-len") + 1] = "256"
    argv[argv.index("--no-enable-prefix-caching")] = "--enable-prefix-caching"
    env = {name: value for name, value in arm.env.items() if name != "VLLM_USE_V2_MODEL_RUNNER"}
    return replace(arm, argv=tuple(argv), env=env)


async def test_a_confounded_pair_is_named_from_the_engines_own_documents(scratch: Path) -> None:
    stated: list[dict[str, str]] = []
    warned: list[set[str]] = []
    for arm, change in (("target-only", unchanged), ("ngram-k4", confounded)):
        place = scratch / arm
        place.mkdir()
        launch = change(spec(arm, place))
        async with VllmServer(launch, place / "log", tag=f"real:{scratch.name}", startup_timeout_s=300) as server:
            stated.append((await server.configuration()).values)
            warned.append({w.name for w in server.warnings() if w.effect is WarningEffect.FAILS_PREFLIGHT})
    assert differences(*stated) == {
        "model_config.max_model_len": ("512", "256"),
        "cache_config.enable_prefix_caching": ("false", "true"),
        "env.VLLM_USE_V2_MODEL_RUNNER": ("false", None),
    }
    assert warned == [set(), {"runner_replaced"}]
