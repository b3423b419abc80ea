"""Every way in which a request can end, through the real client process; and answers cut where it hurts."""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.exposition import GENERATION_TOKENS, REQUEST_SUCCESS, RUNNING, parse_exposition
from app.domain.observation import RequestObservation
from app.domain.stall import STALL_NS
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.fakes.raw_server import raw_server
from tests.fakes.servers import SERVED_MODEL_NAME, StartedServer, fake_vllm, null_engine
from tests.worker.replay.streams import CHAT, STREAM_HEAD, TOOLS, exchange, http_chunk, recorded
from tests.worker.replays import replay
from worker.replay.agenda import PLANNED_CANCEL
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.response import observe

PATIENCE_S = 20.0
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def plan(socket_path: str, *requests: ReplayRequest, drain_ms: int = 30_000) -> ReplayPlan:
    return ReplayPlan(socket_path, None, None, "/v1/completions", requests, drain_ms * NS_PER_MS, (), 0)


async def answered(scratch: Path, **pieces: list[bytes]) -> dict[str, RequestObservation]:
    """What the client saw of answers that came in these pieces."""
    requests = [ReplayRequest(name, i * NS_PER_MS, b"{}") for i, name in enumerate(pieces)]
    async with raw_server(str(scratch / "s"), pieces):
        record = await replay(plan(str(scratch / "s"), *requests), scratch / "replay")
    return {seen.request_id: seen for seen in record.observations}


def said(seen: RequestObservation) -> dict[str, Any]:
    apart = {"request_id", "due_ns", "sent_ns", "first_byte_ns", "end_ns", "chunk_ns"}
    return seen.model_dump(exclude=apart)


async def test_answers_of_every_kind_come_through_in_pieces(scratch: Path) -> None:
    """Characters cut by reads and by HTTP chunks; reasoning, tool calls, log probabilities, tokens without text."""
    streams = {"chat": CHAT, "tools": TOOLS, "text": recorded("draft_model_stream.sse.txt")}
    pieces: dict[str, list[bytes]] = {}
    for name, stream in streams.items():
        cut_chunks = stream.rechunked([7] * 60)
        pieces[f"{name}-read"] = [stream.wire[i : i + 61] for i in range(0, len(stream.wire), 61)]
        pieces[f"{name}-chunk"] = [cut_chunks[i : i + 97] for i in range(0, len(cut_chunks), 97)]
        pieces[f"{name}-once"] = [stream.wire]
    seen = await answered(scratch, **pieces)
    for name, stream in streams.items():
        expected = said(observe(exchange(stream.wire)))
        assert expected["outcome"] is Outcome.SUCCESS
        for way in ("read", "chunk", "once"):
            assert said(seen[f"{name}-{way}"]) == expected
        by_reads = seen[f"{name}-read"].chunk_ns
        assert list(by_reads) == sorted(by_reads)
        assert by_reads[0] < by_reads[-1]


async def test_broken_answers_end_each_in_its_own_way_and_disturb_no_other(scratch: Path) -> None:
    first = http_chunk(CHAT.events[1])
    error = http_chunk(b'data: {"error":{"message":"EngineCore encountered an issue."}}\n\n')
    seen = await answered(
        scratch,
        closed=[STREAM_HEAD, first],
        unfinished=[STREAM_HEAD, first, http_chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"],
        failed=[STREAM_HEAD, first, error, http_chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"],
        beyond=[STREAM_HEAD, first, http_chunk(CHAT.events[1].replace(b"281", b"%d" % 2**63))],
        garbage=[STREAM_HEAD, first, b"not a chunk"],
        foreign=[b"SSH-2.0-OpenSSH_9.6\r\n"],
        refused=[b'HTTP/1.1 503 X\r\ncontent-length: 28\r\n\r\n{"error":{"message":"busy"}}'],
        switched=[b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"],
        silent=[],
        announced=[b"HTTP/1.1 100 Continue\r\n\r\n", CHAT.wire],
        whole=[CHAT.wire],
    )
    outcomes = {name: s.outcome for name, s in seen.items()}
    assert outcomes == {
        "closed": Outcome.TRUNCATED,
        "unfinished": Outcome.TRUNCATED,
        "failed": Outcome.STREAM_ERROR,
        "beyond": Outcome.STREAM_ERROR,
        "garbage": Outcome.STREAM_ERROR,
        "foreign": Outcome.STREAM_ERROR,
        "refused": Outcome.HTTP_ERROR,
        "switched": Outcome.STREAM_ERROR,
        "silent": Outcome.TRUNCATED,
        "announced": Outcome.SUCCESS,
        "whole": Outcome.SUCCESS,
    }
    assert {name for name, s in seen.items() if s.token_ids == (281, 290)} == {
        "closed", "unfinished", "failed", "beyond", "garbage"
    }  # fmt: skip
    assert seen["failed"].error == "EngineCore encountered an issue."
    assert (seen["refused"].error, seen["refused"].http_status) == ("busy", 503)


def completion(name: str, due_ms: int = 0, *, model: str = SERVED_MODEL_NAME, **facts: Any) -> ReplayRequest:
    body = {"model": model, "prompt": [1, 2, 3], "max_tokens": 24, "stream": True,
            "stream_options": {"include_usage": True}, "return_token_ids": True}  # fmt: skip
    return ReplayRequest(name, due_ms * NS_PER_MS, json.dumps(body).encode(), **facts)


async def test_a_request_that_the_engine_refuses_is_an_http_error_in_its_words(tmp_path: Path) -> None:
    with fake_vllm() as server:
        requests = completion("known"), completion("unknown", model="another")
        record = await replay(plan(server.socket_path, *requests), tmp_path)
    known, unknown = record.observations
    assert known.outcome is Outcome.SUCCESS
    assert (unknown.outcome, unknown.http_status, unknown.chunk_ns) == (Outcome.HTTP_ERROR, 404, ())
    assert unknown.error == "The model `another` does not exist."


def counted(server: StartedServer) -> dict[str, float]:
    """Aborted requests, running ones and tokens, as the server counts them."""
    exposition = parse_exposition(server.get("/metrics"))
    return {
        "aborted": exposition.value(REQUEST_SUCCESS, finished_reason="abort"),
        "running": exposition.value(RUNNING),
        "tokens": exposition.value(GENERATION_TOKENS),
    }


SLOW = {"ttft_ms": 1.0, "step_ms": {"*": 100.0}, "acceptance": {"*": [1.0]}}


async def test_a_planned_cancel_stops_the_server(tmp_path: Path) -> None:
    with fake_vllm(SLOW, NGRAM) as server:
        canceled = completion("canceled", cancel_at_ns=550 * NS_PER_MS)
        record = await replay(plan(server.socket_path, canceled), tmp_path)
        (seen,) = record.observations
        assert (seen.outcome, seen.error) == (Outcome.CLIENT_CANCEL, PLANNED_CANCEL)
        assert 1 <= len(seen.token_ids) < 24
        stopped = await until_aborted(server)
        assert stopped["running"] == 0
        await asyncio.sleep(0.3)
        assert counted(server)["tokens"] == stopped["tokens"] < 24


async def until_aborted(server: StartedServer) -> dict[str, float]:
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        if (now := await asyncio.to_thread(counted, server))["aborted"]:
            return now
        await asyncio.sleep(0.02)
    pytest.fail("the server never noticed that its client had gone")


def scheduled(name: str, schedule: list[list[int]]) -> ReplayRequest:
    """Milliseconds after the chunk before and tokens, given up after two seconds."""
    body = json.dumps({"model": "null", "null_schedule": schedule}).encode()
    return ReplayRequest(name, 0, body, deadline_ns=2 * STALL_NS)


async def test_who_stands_still_is_told_from_who_is_slow_and_from_who_waits(tmp_path: Path) -> None:
    """All miss the same deadline; only one had begun and then said nothing for longer than ever before."""
    never = [600_000, 1]
    requests = (
        scheduled("stalled", [[0, 1], [100, 2], never]),
        scheduled("slow", [[0, 1], *[[300, 1]] * 20]),
        scheduled("waiting", [never]),
    )
    with null_engine() as server:
        record = await replay(plan(server.socket_path, *requests), tmp_path)
    stalled, slow, waiting = record.observations
    assert [seen.outcome for seen in record.observations] == [
        Outcome.STALL,
        Outcome.DEADLINE_MISS,
        Outcome.DEADLINE_MISS,
    ]
    assert stalled.end_ns is not None
    assert f"no chunk for {(stalled.end_ns - stalled.chunk_ns[-1]) / NS_PER_S:.3f} s" in (stalled.error or "")
    assert (stalled.chunk_tokens, waiting.chunk_tokens, waiting.http_status) == ((1, 2), (), 200)
    assert len(slow.chunk_tokens) > 2
