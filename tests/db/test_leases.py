"""Claims have one winner, a stale fence writes nothing, expired leases come back, cancel is final."""

import asyncio
from uuid import uuid4

import pytest

from app.db.notify import Change, subscribe
from app.domain.errors import IllegalTransition
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState, ExperimentState, RunState, SessionState
from app.domain.retry import ATTEMPTS_MAX
from app.domain.vocabulary import FailureClass
from app.experiments.repository import ExperimentRepository
from app.leases.repository import ClaimedBlock, Fenced
from tests.db.conftest import Bench
from tests.factories_leases import claim_block

INFRA = Failure(failure_class=FailureClass.INFRA, message="the disk is full")


async def test_of_many_claimers_each_block_has_one_winner(bench: Bench) -> None:
    await bench.register(blocks=3)

    async def attempt(number: int) -> ClaimedBlock | None:
        async with bench.database.transaction() as session:
            return await claim_block(session, f"worker-{number}")

    claimed = [b for b in await asyncio.gather(*(attempt(n) for n in range(40))) if b is not None]
    assert sorted(b.index for b in claimed) == [0, 1, 2]
    assert {b.fence for b in claimed} == {1}


async def test_blocks_are_claimed_in_order_and_start_the_experiment(bench: Bench) -> None:
    digest = await bench.register(blocks=2)
    assert (await bench.read(digest)).state is ExperimentState.QUEUED
    assert [(await bench.claim()).index for _ in range(2)] == [0, 1]
    assert (await bench.read(digest)).state is ExperimentState.RUNNING


async def test_a_claim_carries_the_manifest_with_its_digest(bench: Bench) -> None:
    digest = await bench.register()
    block = await bench.claim()
    assert block.manifest.digest == block.experiment_id == digest


async def test_a_stopped_host_gives_its_blocks_back_as_if_never_tried(bench: Bench) -> None:
    await bench.register(blocks=2)
    ours, theirs = await bench.claim("here:1"), await bench.claim("there:1")
    async with bench.leases() as blocks:
        assert await blocks.release("here") == 1
    again = await bench.claim("here:2")
    assert (again.id, again.fence, again.attempt) == (ours.id, 2, 1)
    async with bench.leases() as blocks:
        assert not (await blocks.heartbeat(ours.id, ours.fence, 60)).held
        assert (await blocks.heartbeat(theirs.id, theirs.fence, 60)).held


async def test_a_stale_fence_writes_nothing(bench: Bench) -> None:
    digest = await bench.register(blocks=1)
    stale = await bench.claim("sleeper")
    session_id, run_id = await bench.start_run(stale)
    assert await bench.expire(stale) == 1
    fresh = await bench.claim("successor")
    assert (fresh.id, fresh.fence, fresh.attempt) == (stale.id, 2, 2)
    before = await bench.read(digest)
    async with bench.leases() as blocks:
        assert not (await blocks.heartbeat(stale.id, stale.fence, 60)).held
    with pytest.raises(Fenced):
        await bench.finish(stale, BlockState.SUCCEEDED)
    with pytest.raises(Fenced):
        async with bench.leases() as leases:
            await leases.give_back(stale.id, stale.fence, INFRA)
    for write in (
        lambda b: b.start_session(stale.id, stale.fence, "ngram-k4", 1),
        lambda b: b.adopt(stale.id, stale.fence, [session_id]),
        lambda b: b.move_session(session_id, stale.fence, SessionState.DRAINING),
        lambda b: b.move_session(session_id, fresh.fence, SessionState.DRAINING),
        lambda b: b.start_run(session_id, stale.fence, "tasks", "high"),
        lambda b: b.start_run(session_id, fresh.fence, "tasks", "high"),
        lambda b: b.finish_run(run_id, stale.fence, RunState.SUCCEEDED, failure=None, counters=None, summary=None),
        lambda b: b.finish_run(run_id, fresh.fence, RunState.SUCCEEDED, failure=None, counters=None, summary=None),
        lambda b: b.start_session(uuid4(), 1, "ngram-k4", 1),
    ):
        with pytest.raises(Fenced):
            async with bench.runs() as runs:
                await write(runs)
    assert await bench.read(digest) == before


async def test_a_beating_lease_is_not_reaped(bench: Bench) -> None:
    await bench.register()
    block = await bench.claim()
    async with bench.leases() as blocks:
        assert (await blocks.heartbeat(block.id, block.fence, 60)).held
        assert await blocks.reap_expired() == 0


async def test_the_lost_attempt_is_not_shown_and_the_last_one_fails_as_infra(bench: Bench) -> None:
    digest = await bench.register(blocks=1)
    shown = await bench.read(digest)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        block = await bench.claim()
        assert block.attempt == attempt
        await bench.start_run(block)
        await bench.expire(block)
        shown = await bench.read(digest)
        if attempt < ATTEMPTS_MAX:
            assert (shown.sessions_done, shown.failures) == (0, [])
    assert shown.state is ExperimentState.FAILED
    assert {f.where for f in shown.failures} == {"block 1", "block 1/target-only", "block 1/target-only/tasks/low"}
    assert {f.failure_class for f in shown.failures} == {FailureClass.INFRA}


async def test_the_last_of_two_blocks_that_end_at_once_finishes_the_experiment(bench: Bench) -> None:
    digest = await bench.register(blocks=2)
    held = [await bench.claim(), await bench.claim()]
    await asyncio.gather(*(bench.finish(block, BlockState.SUCCEEDED) for block in held))
    shown = await bench.read(digest)
    assert (shown.state, shown.blocks_complete, shown.seconds_left) == (ExperimentState.FINISHED, 2, 0.0)
    assert shown.finished_at is not None


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((BlockState.SUCCEEDED, BlockState.FAILED), ExperimentState.FINISHED),
        ((BlockState.FAILED, BlockState.FAILED), ExperimentState.FAILED),
        ((BlockState.SUCCEEDED, BlockState.CANCELED), ExperimentState.CANCELED),
    ],
)
async def test_what_blocks_became_decides_the_experiment(
    bench: Bench, states: tuple[BlockState, BlockState], expected: ExperimentState
) -> None:
    digest = await bench.register(blocks=2)
    for state in states:
        await bench.finish(await bench.claim(), state, INFRA if state is BlockState.FAILED else None)
    assert (await bench.read(digest)).state is expected


async def test_terminal_is_final(bench: Bench) -> None:
    await bench.register(blocks=2)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    await bench.finish_run(block, session_id, run_id)
    with pytest.raises(IllegalTransition):
        await bench.finish_run(block, session_id, run_id)
    with pytest.raises(IllegalTransition):
        async with bench.runs() as blocks:
            await blocks.move_session(session_id, block.fence, SessionState.FAILED, INFRA)
    with pytest.raises(IllegalTransition):
        await bench.finish(block, BlockState.QUEUED)
    await bench.finish(block, BlockState.SUCCEEDED)
    with pytest.raises(Fenced):
        await bench.finish(block, BlockState.FAILED, INFRA)


async def test_a_canceled_lease_ends_canceled_also_when_its_holder_dies(bench: Bench) -> None:
    digest = await bench.register(blocks=2)
    block = await bench.claim()
    async with bench.database.transaction() as session:
        await ExperimentRepository(session).cancel(digest)
    assert (await bench.read(digest)).state is ExperimentState.RUNNING
    await bench.expire(block)
    assert (await bench.read(digest)).state is ExperimentState.CANCELED


async def test_cancel_and_finish_at_once_never_deadlock(bench: Bench) -> None:
    digest = await bench.register(blocks=6)
    held = [await bench.claim() for _ in range(4)]

    async def cancel() -> None:
        async with bench.database.transaction() as session:
            await ExperimentRepository(session).cancel(digest)

    ends = [bench.finish(block, BlockState.SUCCEEDED) for block in held]
    await asyncio.gather(cancel(), *ends, cancel())
    assert (await bench.read(digest)).state in {ExperimentState.CANCELED, ExperimentState.FINISHED}


async def test_progress_counts_and_time_left_follow_the_sessions(bench: Bench) -> None:
    digest = await bench.register(blocks=2)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    now = (await bench.read(digest)).current
    assert now is not None
    assert (now.block, now.arm, now.workload, now.load) == (0, "target-only", "tasks", "low")
    assert now.session_state is SessionState.MEASURING
    await bench.finish_run(block, session_id, run_id)
    shown = await bench.read(digest)
    assert (shown.sessions_done, shown.runs_done, shown.current) == (1, 1, None)
    assert shown.seconds_left is not None
    assert shown.seconds_left > 0


async def claim_and_fail(bench: Bench) -> None:
    async with bench.database.transaction() as session:
        await claim_block(session, "worker-0")
        raise RuntimeError("rolled back")


async def test_changes_are_heard_after_the_commit_and_never_without_one(bench: Bench) -> None:
    digest = await bench.register()
    async with subscribe(bench.database.url, timeout_s=10) as heard:
        with pytest.raises(RuntimeError, match="rolled back"):
            await claim_and_fail(bench)
        await bench.claim()
        change = await anext(heard)
    assert change == Change(digest, 2)
