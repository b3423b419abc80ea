"""What an attempt finds of the attempts before it, and what it makes of what they left open."""

import pytest

from app.domain.condition import Condition
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.resume import EarlierSession
from app.leases.repository import ClaimedBlock
from tests.db.conftest import Bench
from tests.db.hosts import INFRA, sql


async def found(bench: Bench, block: ClaimedBlock) -> list[EarlierSession]:
    async with bench.runs() as runs:
        return sorted(await runs.earlier(block.id, block.fence), key=lambda s: s.arm)


async def interrupt(bench: Bench, block: ClaimedBlock) -> ClaimedBlock:
    """Its worker leaves, another one claims the block."""
    async with bench.leases() as leases:
        await leases.give_back(block.id, block.fence, INFRA, tried=False)
    return await bench.claim()


async def test_a_first_attempt_finds_nothing(bench: Bench) -> None:
    await bench.register(blocks=1)
    assert await found(bench, await bench.claim()) == []


async def test_finished_sessions_and_runs_of_the_attempt_before_are_found(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    await bench.finish_run(block, session_id, run_id)
    half, measured = await bench.start_run(block, "ngram-k4", 1)
    async with bench.runs() as runs:
        await runs.finish_run(measured, block.fence, RunState.SUCCEEDED, failure=None, counters=None, summary=None)
        await runs.start_run(half, block.fence, "tasks", "high")
    again = await interrupt(bench, block)
    ngram, target = await found(bench, again)
    assert (target.id, target.over, target.succeeded) == (
        session_id,
        True,
        frozenset({Condition("target-only", "tasks", "low")}),
    )
    assert (ngram.id, ngram.over, ngram.succeeded) == (half, False, frozenset({Condition("ngram-k4", "tasks", "low")}))
    assert target.accelerators == block.addresses
    assert target.idle_s >= ngram.idle_s >= 0


@pytest.mark.parametrize("idle_attempts", [1, 2])
async def test_attempts_that_ended_before_they_began_lose_nothing(bench: Bench, idle_attempts: int) -> None:
    """A worker that is stopped between its claim and its first look has taken nothing over."""
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    await bench.finish_run(block, session_id, run_id)
    for _ in range(idle_attempts + 1):
        block = await interrupt(bench, block)
    assert [s.id for s in await found(bench, block)] == [session_id]


async def test_what_was_taken_over_is_found_with_what_came_after_and_what_was_not_is_gone(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    kept, kept_run = await bench.start_run(block)
    await bench.finish_run(block, kept, kept_run)
    await bench.start_run(block, "ngram-k4", 1)
    block = await interrupt(bench, block)
    async with bench.runs() as runs:
        await runs.adopt(block.id, block.fence, [kept])
    newer, _ = await bench.start_run(block, "ngram-k4", 1)
    block = await interrupt(bench, block)
    assert {s.id for s in await found(bench, block)} == {kept, newer}


async def test_a_session_of_another_block_is_not_taken_over(bench: Bench) -> None:
    await bench.register(blocks=2)
    block, other = await bench.claim(), await bench.claim()
    foreign, _ = await bench.start_run(other)
    async with bench.runs() as runs:
        await runs.adopt(block.id, block.fence, [foreign])
    assert sql(bench.database, "SELECT adopted_fence FROM session WHERE id = %s", foreign) == [(None,)]


async def test_what_a_block_that_ended_well_left_open_was_not_measured(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    await bench.start_run(block)
    await bench.finish(block, BlockState.SUCCEEDED)
    states = sql(bench.database, "SELECT s.state, r.state FROM session s JOIN run r ON r.session_id = s.id")
    assert states == [(SessionState.LOST, RunState.LOST)]
