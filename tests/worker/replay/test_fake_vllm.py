"""The fake engine keeps its promises: what its dials say is what the client and the counters show."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.domain.evidence import CounterDeltas
from app.domain.exposition import Exposition, counter_deltas, parse_exposition
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.fakes.servers import SERVED_MODEL_NAME, StartedServer, fake_vllm, fake_vllm_command
from tests.worker.replays import replay
from worker.replay.plan import ReplayPlan, ReplayRequest

FAST = {"ttft_ms": 0.5, "step_ms": {"*": 0.2}}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
DRAFT = {"method": "draft_model", "num_speculative_tokens": 4}
MAX_TOKENS = 24


def request(number: int) -> ReplayRequest:
    body = {"model": SERVED_MODEL_NAME, "prompt": [1, 2, number], "max_tokens": MAX_TOKENS, "stream": True,
            "stream_options": {"include_usage": True}, "return_token_ids": True}  # fmt: skip
    return ReplayRequest(f"q-{number}", 5 * number * NS_PER_MS, json.dumps(body).encode())


async def observe(server: StartedServer, directory: Path, count: int = 40) -> tuple[RequestObservation, ...]:
    requests = tuple(request(number) for number in range(count))
    plan = ReplayPlan(server.socket_path, None, None, "/v1/completions", requests, 30 * NS_PER_S, (), 0)
    return (await replay(plan, directory)).observations


def scrape(server: StartedServer) -> Exposition:
    return parse_exposition(server.get("/metrics"))


async def observe_counted(
    server: StartedServer, directory: Path
) -> tuple[tuple[RequestObservation, ...], CounterDeltas]:
    before = scrape(server)
    observations = await observe(server, directory)
    return observations, counter_deltas(before, scrape(server))


@pytest.mark.parametrize("speculation", [NGRAM, DRAFT])
async def test_counters_are_the_sums_of_the_requests(speculation: dict[str, Any], tmp_path: Path) -> None:
    with fake_vllm({**FAST, "draft_rate": {"ngram": 0.6}}, speculation) as server:
        observations, counters = await observe_counted(server, tmp_path)
    reported = [seen.speculation for seen in observations if seen.speculation is not None]
    assert len(reported) == counters.request_success == 40
    assert counters.generation_tokens == sum(len(seen.token_ids) for seen in observations) == 40 * MAX_TOKENS
    assert counters.prompt_tokens == 40 * 3
    assert counters.spec_decode_num_drafts == sum(r.num_spec_steps for r in reported)
    assert counters.spec_decode_num_draft_tokens == sum(sum(r.per_step_drafted) for r in reported)
    assert counters.spec_decode_num_accepted_tokens == sum(sum(r.per_step_accepted) for r in reported)
    accepted_beyond = [
        sum(sum(n > j for n in r.per_step_accepted) for r in reported)
        for j in range(len(counters.spec_decode_num_accepted_tokens_per_pos or ()))
    ]
    assert list(counters.spec_decode_num_accepted_tokens_per_pos or ()) == accepted_beyond


async def test_chunks_are_the_accepted_tokens_and_one_more(tmp_path: Path) -> None:
    with fake_vllm(FAST, DRAFT) as server:
        observations = await observe(server, tmp_path)
    for seen in observations:
        assert seen.speculation is not None
        whole_steps = [1 + accepted for accepted in seen.speculation.per_step_accepted[:-1]]
        assert seen.chunk_tokens[0] == 1
        assert list(seen.chunk_tokens[1:-1]) == whole_steps
        assert sum(seen.chunk_tokens) == MAX_TOKENS


async def test_the_acceptance_dial_comes_back(tmp_path: Path) -> None:
    """Deterministic by seed; about 300 steps, so the tolerance is beyond four standard errors."""
    with fake_vllm({**FAST, "acceptance": {"ngram": [0.9, 0.5, 0.2]}}, NGRAM) as server:
        _, counters = await observe_counted(server, tmp_path)
    first, second, third = counters.spec_decode_num_accepted_tokens_per_pos or (0, 0, 0)
    assert counters.spec_decode_num_drafts is not None
    assert first / counters.spec_decode_num_drafts == pytest.approx(0.9, abs=0.1)
    assert second / first == pytest.approx(0.5, abs=0.15)
    assert third / second == pytest.approx(0.2, abs=0.15)


async def test_arms_agree_on_every_token_unless_a_dial_says_otherwise(tmp_path: Path) -> None:
    dials = {**FAST, "mismatch_arms": {"draft_model": 0.5}}
    tokens: dict[str, list[tuple[int, ...]]] = {}
    for name, speculation in (("target_only", None), ("ngram", NGRAM), ("draft_model", DRAFT)):
        with fake_vllm(dials, speculation) as server:
            tokens[name] = [seen.token_ids for seen in await observe(server, tmp_path / name)]
    assert tokens["ngram"] == tokens["target_only"]
    differing = sum(a != b for a, b in zip(tokens["draft_model"], tokens["target_only"], strict=True))
    assert 0 < differing < 40


async def test_target_only_exposes_no_speculative_metrics(tmp_path: Path) -> None:
    with fake_vllm(FAST) as server:
        observations, counters = await observe_counted(server, tmp_path)
    assert all(seen.speculation is None for seen in observations)
    assert {seen.chunk_tokens for seen in observations} == {(1,) * MAX_TOKENS}
    assert counters.spec_decode_num_drafts is None


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ({"stream_error_every": 4}, Outcome.STREAM_ERROR, "EngineCore encountered an issue"),
        ({"truncate_every": 4}, Outcome.TRUNCATED, "finish_reason"),
    ],
)
async def test_every_fourth_request_breaks(fault: dict[str, int], outcome: Outcome, words: str, tmp_path: Path) -> None:
    with fake_vllm({**FAST, "faults": {"ngram": fault}}, NGRAM) as server:
        observations = await observe(server, tmp_path)
    broken = [seen for seen in observations if seen.outcome is not Outcome.SUCCESS]
    assert len(broken) == 10
    assert {seen.outcome for seen in broken} == {outcome}
    assert all(words in (seen.error or "") and seen.token_ids for seen in broken)


async def test_the_engine_dies_after_so_many_requests(tmp_path: Path) -> None:
    with fake_vllm({**FAST, "faults": {"*": {"die_after_requests": 10}}}) as server:
        outcomes = [seen.outcome for seen in await observe(server, tmp_path)]
        assert server.process.wait(10) == 1
        assert "EngineCore encountered a fatal error." in (server.directory / "log").read_text()
    assert outcomes.count(Outcome.SUCCESS) <= 10
    assert outcomes[-1] is Outcome.CONNECT_REFUSED


async def test_wrong_metrics_do_not_reconcile(tmp_path: Path) -> None:
    with fake_vllm({**FAST, "faults": {"ngram": {"wrong_metrics": True}}}, NGRAM) as server:
        observations, counters = await observe_counted(server, tmp_path)
    reported = sum(seen.speculation.num_accepted_draft_tokens for seen in observations if seen.speculation)
    assert counters.spec_decode_num_accepted_tokens == reported + 40


@pytest.mark.parametrize(
    ("dials", "extra", "code", "words"),
    [
        ({}, ("--no-such-flag",), 2, "unrecognized arguments: --no-such-flag"),
        ({}, ("--per-request-spec-decode-metrics", "detailed"), 1, "requires speculative decoding"),
        ({}, ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 0}'), 1, "greater than zero"),
        ({"faults": {"*": {"die_at_startup": True}}}, (), 1, "EngineCore encountered a fatal error."),
        ({"faults": {"*": {"oom_text": True}}}, (), 1, "CUDA out of memory"),
        ({"no_such_dial": 1}, (), 1, "unknown dials no_such_dial"),
    ],
)
def test_starts_that_fail(dials: dict[str, Any], extra: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    argv, environment, _ = fake_vllm_command(tmp_path, dials)
    ended = subprocess.run([*argv, *extra], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert words in ended.stdout + ended.stderr


def test_sigterm_stops_it_unless_it_is_told_to_ignore_it() -> None:
    with fake_vllm() as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
    with fake_vllm({"faults": {"*": {"ignore_sigterm": True}}}) as server:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.get("/health") == ""


def test_the_orphan_outlives_the_server() -> None:
    with fake_vllm({"faults": {"*": {"orphan": True}}}) as server:
        mark = f"FAKE_MARK={server.directory}"
        assert server.process.pid in _marked(mark)
    orphans = _marked(mark)
    for pid in orphans:
        os.kill(pid, signal.SIGKILL)
    assert len(orphans) == 1


def _marked(mark: str) -> list[int]:
    """Processes that inherited the server's environment."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and mark in _environment(int(entry.name))
    ]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
