"""What is recorded comes back exactly, and only the attempt that was committed is evidence."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db.session import Database
from app.domain.errors import NotFound
from app.domain.evidence import CounterDeltas, Failure
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.series import Series
from app.domain.startup import CanaryFacts, ConfigSource, StartupWarning, WarningEffect
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.evidence.stretches import SAMPLES_PER_ROW
from app.evidence.views.repository import EvidenceViews
from app.leases.repository import Fenced
from app.runs.facts import SessionFacts
from tests.db.conftest import Bench
from tests.factories import make_observation, make_trace

COUNTS = CounterDeltas(prompt_tokens=6, generation_tokens=8, request_success=2, num_preemptions=0)
SAMPLED = (
    Series(name="vllm:kv_cache_usage_perc", at_ns=(0, 10), values=(0.25, 0.5)),
    Series(
        name="vllm:num_requests_waiting_by_reason",
        labels={"reason": "capacity"},
        at_ns=tuple(range(SAMPLES_PER_ROW + 2)),
        values=tuple(map(float, range(SAMPLES_PER_ROW + 2))),
    ),
    Series(name="vllm:num_requests_waiting_by_reason", labels={"reason": "deferred"}, at_ns=(0,), values=(1.0,)),
)
"""The long one takes two rows."""
WARNED = StartupWarning(name="k_defaulted", effect=WarningEffect.FAILS_PREFLIGHT, reason="why", line="odd")


async def record(bench: Bench, *observations: RequestObservation) -> str:
    """One finished block with one run that holds the observations."""
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        evidence = EvidenceRepository(session)
        await evidence.record_observations(run_id, block.fence, observations)
        await evidence.record_series(run_id, block.fence, SAMPLED)
        await evidence.record_artifact("engine-log", "e" * 64, "ee/log", session_id, None, 3)
    await bench.finish_run(block, session_id, run_id)
    await bench.finish(block, BlockState.SUCCEEDED)
    return digest


async def test_observations_series_and_sessions_come_back(bench: Bench) -> None:
    awkward = make_observation(
        "tasks-low-1",
        text="tab\t nul\x00 \\N newline\n é 漢 \U0001f600",
        error="bad\x00byte",
        token_ids=(),
        speculation=None,
    )
    digest = await record(bench, make_observation(), awkward)
    async with bench.database.reader() as session:
        evidence = await EvidenceRepository(session).load_evidence(digest)
    (run,) = evidence.runs
    assert run.observations == (make_observation(), awkward)
    assert (run.block, run.arm, run.workload, run.load) == (0, "target-only", "tasks", "low")
    assert run.series == SAMPLED
    assert [s.state for s in evidence.sessions] == [SessionState.SUCCEEDED]
    assert [label.request_id for label in evidence.labels["tasks"]] == ["tasks-low-0", "tasks-low-1"]
    assert evidence.content_valid == {"tasks": True}


big = st.integers(min_value=0, max_value=2**63 - 1)
maybe = st.none() | big
series = st.lists(big, max_size=4).map(tuple)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
observations = st.builds(
    RequestObservation,
    request_id=st.just("tasks-low-0"),
    due_ns=big,
    sent_ns=maybe,
    first_byte_ns=maybe,
    end_ns=maybe,
    chunk_ns=series,
    chunk_tokens=series,
    token_ids=series,
    text=text,
    reasoning=text,
    tool_calls=text,
    logprobs=st.lists(st.floats(max_value=0, allow_nan=False, allow_infinity=False), max_size=4).map(tuple),
    finish_reason=st.none() | st.sampled_from(["stop", "length"]),
    prompt_tokens=maybe,
    completion_tokens=maybe,
    cached_tokens=maybe,
    queue_time_ns=maybe,
    speculation=st.none()
    | st.builds(
        SpeculationCounts,
        num_spec_steps=big,
        num_draft_tokens=big,
        num_accepted_draft_tokens=big,
        acceptance_histogram=series,
        per_step_accepted=series,
        per_step_drafted=series,
    ),
    http_status=st.none() | st.integers(100, 599),
    error=st.none() | text,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(observation=observations)
async def test_any_observation_round_trips(bench: Bench, observation: RequestObservation) -> None:
    digest = await bench.register(blocks=100, schedule_seed=3)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [observation])
    async with bench.database.reader() as session:
        assert await EvidenceViews(session).observations(run_id, "", 10) == [observation]
    await bench.finish_run(block, session_id, run_id)
    await bench.finish(block, BlockState.SUCCEEDED)
    assert digest == block.experiment_id


async def test_only_the_committed_attempt_is_evidence(bench: Bench) -> None:
    digest = await bench.register(blocks=1)
    lost = await bench.claim()
    _, lost_run = await bench.start_run(lost)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(lost_run, lost.fence, [make_observation(text="lost")])
    await bench.expire(lost)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [make_observation(text="kept")])
    async with bench.database.reader() as session:
        assert (await EvidenceRepository(session).load_evidence(digest)).runs == ()
    await bench.finish_run(block, session_id, run_id)
    await bench.finish(block, BlockState.SUCCEEDED)
    async with bench.database.reader() as session:
        (run,) = (await EvidenceRepository(session).load_evidence(digest)).runs
    assert [o.text for o in run.observations] == ["kept"]


async def test_a_lost_lease_cannot_add_evidence(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    await bench.expire(block)
    for write in (
        lambda e: e.record_observations(run_id, block.fence, [make_observation()]),
        lambda e: e.record_series(run_id, block.fence, SAMPLED),
        lambda e: e.record_artifact("engine-log", "e" * 64, "ee/log", session_id, None, 3),
        lambda e: e.record_artifact("raw-reads", "e" * 64, "ee/log", None, run_id, 3),
    ):
        with pytest.raises(Fenced):
            async with bench.database.transaction() as session:
                await write(EvidenceRepository(session))


async def test_a_failed_run_keeps_its_class_counters_and_odd_text(bench: Bench) -> None:
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    dead = Failure(failure_class=FailureClass.ENGINE_DEAD, message="killed\x00 by signal 9")
    facts = SessionFacts(
        startup_ns=5,
        argv=("vllm", "serve"),
        log_sha256="e" * 64,
        resolved_config={"model.dtype": "float32\x00"},
        config_source=ConfigSource.LOG,
        memory={"kv": "1 GiB"},
        canary=CanaryFacts(exposes_speculation=True, drafted=3, accepted=2),
        flags_left_out={"--some-flag": "nothing"},
    )
    async with bench.runs() as blocks:
        await blocks.describe_session(session_id, block.fence, facts)
        await blocks.record_warnings(session_id, block.fence, [WARNED.model_copy(update={"line": "odd\x00"})])
        await blocks.finish_run(run_id, block.fence, RunState.FAILED, failure=dead, counters=COUNTS, summary=None)
        await blocks.move_session(session_id, block.fence, SessionState.FAILED, dead)
    await bench.finish(block, BlockState.SUCCEEDED)
    async with bench.database.reader() as session:
        evidence = await EvidenceRepository(session).load_evidence(digest)
    (run,), (served,) = evidence.runs, evidence.sessions
    assert run.failure == Failure(failure_class=FailureClass.ENGINE_DEAD, message="killed\ufffd by signal 9")
    assert run.counters == COUNTS
    assert (served.startup_ns, served.argv, served.memory) == (5, ("vllm", "serve"), {"kv": "1 GiB"})
    assert served.resolved_config == {"model.dtype": "float32\ufffd"}
    assert served.config_source is ConfigSource.LOG
    assert served.canary == CanaryFacts(exposes_speculation=True, drafted=3, accepted=2)
    assert served.flags_left_out == {"--some-flag": "nothing"}
    assert served.warnings == (WARNED.model_copy(update={"line": "odd\ufffd"}),)


async def test_a_lost_lease_cannot_add_warnings(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, _ = await bench.start_run(block)
    await bench.expire(block)
    with pytest.raises(Fenced):
        async with bench.runs() as blocks:
            await blocks.record_warnings(session_id, block.fence, [WARNED])


async def test_a_trace_is_stored_once_and_comes_back(database: Database) -> None:
    trace = make_trace(requests=3)
    async with database.transaction() as session:
        assert await EvidenceRepository(session).store_trace(trace)
        assert not await EvidenceRepository(session).store_trace(trace)
    async with database.reader() as session:
        assert await EvidenceRepository(session).read_trace(trace.digest) == trace
        with pytest.raises(NotFound):
            await EvidenceRepository(session).read_trace("0" * 64)


async def test_capabilities_are_replaced_per_worker(database: Database) -> None:
    for runtime in ("old", "new"):
        async with database.transaction() as session:
            await EvidenceRepository(session).publish_capabilities("host-1", {"runtimes": [runtime]})
    async with database.reader() as session:
        (seen,) = await EvidenceViews(session).capabilities()
    assert seen.document == {"runtimes": ["new"]}
