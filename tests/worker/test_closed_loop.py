"""Requests that wait for one another, planned cancels, and what each arm gets: real client, servers on dials."""

import json
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.domain.manifest import Sampling
from app.domain.observation import RequestObservation
from app.domain.trace import Trace, TraceRequest
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome
from tests.domain.test_trace_sessions import parse as parse_sessions
from tests.domain.test_trace_sessions import session
from tests.factories import make_manifest, make_trace
from tests.fakes.recorder import received
from tests.fakes.servers import StartedServer, fake_vllm, null_engine
from tests.worker.replays import replay
from tests.worker.test_requests import server as launched
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.requests import replay_plan

FAST = {"ttft_ms": 0.5, "step_ms": {"*": 0.2}}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
DRAFT = {"method": "draft_model", "num_speculative_tokens": 4}


@pytest.fixture
def engine() -> Generator[StartedServer, None, None]:
    with null_engine() as server:
        yield server


def request(number: int, schedule: list[list[int]], **facts: Any) -> ReplayRequest:
    body = json.dumps({"model": "null", "null_schedule": schedule}).encode()
    return ReplayRequest(f"r-{number}", 0, body, **facts)


def plan(server: StartedServer, *requests: ReplayRequest, **facts: Any) -> ReplayPlan:
    where = (server.socket_path, None, None, "/v1/completions")
    return ReplayPlan(*where, requests, 20 * NS_PER_S, (), 50 * NS_PER_MS, **facts)


def in_flight(observations: tuple[RequestObservation, ...]) -> int:
    """The most requests at any moment between sending and the last byte."""
    moments = sorted([(o.sent_ns or 0, 1) for o in observations] + [(o.end_ns or 0, -1) for o in observations])
    counts = [sum(step for _, step in moments[: place + 1]) for place in range(len(moments))]
    return max(counts)


@pytest.mark.parametrize("clients", [1, 4])
async def test_a_closed_loop_keeps_its_clients_busy_and_no_more(
    engine: StartedServer, clients: int, tmp_path: Path
) -> None:
    requests = [request(i, [[10, 1], [5, 2]]) for i in range(24)]
    record = await replay(plan(engine, *requests, clients=clients), tmp_path)
    assert {o.outcome for o in record.observations} == {Outcome.SUCCESS}
    assert in_flight(record.observations) == clients
    ends = {o.end_ns for o in record.observations}
    assert all(o.due_ns in ends for o in record.observations[clients:]), "each is due when another has ended"
    assert all(o.sent_ns is not None and o.sent_ns >= o.due_ns for o in record.observations)


async def test_a_planned_cancel_closes_the_connection_then_and_is_told_as_such(
    engine: StartedServer, tmp_path: Path
) -> None:
    never = request(0, [[0, 1], [600_000, 1]], cancel_at_ns=200 * NS_PER_MS)
    quick = request(1, [[0, 1]], cancel_at_ns=5 * NS_PER_S)
    record = await replay(plan(engine, never, quick), tmp_path)
    canceled, done = record.observations
    assert (canceled.outcome, canceled.chunk_tokens) == (Outcome.CLIENT_CANCEL, (1,))
    assert canceled.error == "canceled by the client, as the trace plans"
    assert canceled.end_ns is not None
    assert canceled.end_ns >= 200 * NS_PER_MS
    assert done.outcome is Outcome.SUCCESS


def talk(answer: Any) -> Trace:
    """Two sessions of three turns that think for a millisecond."""
    turns = [*session(answer, name="a"), *session(answer, name="b")]
    for turn in turns:
        turn["due_ns"] = 0
        if turn["turn"]["index"]:
            turn["turn"] |= {"think_ns": NS_PER_MS}
    return parse_sessions(turns, answer)


def plan_for(requests: tuple[TraceRequest, ...], server: StartedServer, clients: int | None = None) -> ReplayPlan:
    spec = launched(make_manifest(), 0)
    planned = replay_plan(requests, Sampling(temperature=0), salt="salt", server=spec, cores=(), clients=clients)
    return ReplayPlan(
        server.socket_path, None, None, planned.path, planned.requests, 20 * NS_PER_S, (), 50 * NS_PER_MS, clients
    )


@pytest.mark.parametrize("clients", [None, 1])
async def test_a_turn_contains_what_this_arm_said_before(clients: int | None, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    with fake_vllm({**FAST, "record_to": str(sent)}) as server:
        record = await replay(plan_for(talk("own").of_load("low"), server, clients), tmp_path / "replay")
    seen = {o.request_id: o for o in record.observations}
    assert {o.outcome for o in seen.values()} == {Outcome.SUCCESS}
    bodies = {r.request_id: json.loads(r.body)["messages"] for r in received(sent)}
    assert {r.path for r in received(sent)} == {"/v1/chat/completions"}
    for name in ("a", "b"):
        third = bodies[f"{name}-2"]
        assert [third[1]["content"], third[3]["content"]] == [seen[f"{name}-0"].text, seen[f"{name}-1"].text]
        for before, after in pairwise(seen[f"{name}-{i}"] for i in range(3)):
            assert before.text
            assert after.due_ns == (before.end_ns or 0) + NS_PER_MS
    if clients:
        assert in_flight(record.observations) == 1


@pytest.mark.parametrize("trace", [make_trace(requests=20), talk("recorded")], ids=["plain", "recorded turns"])
async def test_every_arm_receives_identical_bytes(trace: Trace, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    for speculation in (None, NGRAM, DRAFT):
        with fake_vllm({**FAST, "record_to": str(sent)}, speculation) as server:
            await replay(plan_for(trace.of_load("low"), server), tmp_path / str(speculation))
    by_arm = {
        arm: {r.request_id: (r.path, r.body) for r in received(sent) if r.arm == arm}
        for arm in ("target_only", "ngram", "draft_model")
    }
    assert len(by_arm["target_only"]) == len(trace.of_load("low"))
    assert by_arm["ngram"] == by_arm["draft_model"] == by_arm["target_only"]
