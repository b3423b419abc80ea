"""Each experiment's evidence is in tables of its own: made at registration, alone looked at, in nobody's way."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.partitions import PARTITIONED, create_partitions, drop_partitions, partition_name, partition_stems
from app.db.session import Database
from app.evidence.repository import EvidenceRepository
from app.evidence.views.repository import EvidenceViews
from app.experiments.repository import ExperimentRepository
from tests.db.conftest import Bench
from tests.db.hosts import sql
from tests.factories import make_manifest, make_observation

OTHERS = 40
LOCKED = text(
    "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
    " WHERE l.pid = pg_backend_pid() AND c.relkind = 'r' AND c.relispartition"
)
FOUND_WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def crowd(bench: Bench) -> None:
    """Other experiments, which have nothing to do with any question about one."""
    async with bench.database.transaction() as session:
        for seed in range(OTHERS):
            await create_partitions(session, make_manifest(schedule_seed=1000 + seed).digest)


async def partitions_locked(session: AsyncSession) -> set[str]:
    return set(await session.scalars(LOCKED))


async def test_a_registered_experiment_has_its_partitions(bench: Bench) -> None:
    digest = await bench.register()
    rows = sql(
        bench.database,
        "SELECT inhparent::regclass::text, inhrelid::regclass::text, pg_get_expr(relpartbound, oid)"
        " FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE relkind = 'r' ORDER BY 1",
    )
    assert rows == [(t, partition_name(t, digest), f"FOR VALUES IN ('{digest}')") for t in PARTITIONED]
    async with bench.database.reader() as session:
        assert await partition_stems(session) == {digest[:32]}


async def test_reading_one_experiment_opens_no_partition_of_another(bench: Bench) -> None:
    """Many times over one connection, too: a prepared plan that is kept must not open them all."""
    await crowd(bench)
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [make_observation()])
    await bench.finish_run(block, session_id, run_id)
    own = {partition_name(table, digest) for table in PARTITIONED}
    async with bench.database.reader() as session:
        for _ in range(15):
            await EvidenceViews(session).observations(run_id, "", 10)
            await EvidenceViews(session).series(run_id)
        assert await partitions_locked(session) == own
    async with bench.database.reader() as session:
        for _ in range(15):
            await EvidenceRepository(session).load_evidence(digest)
        assert await partitions_locked(session) <= own


async def test_writing_evidence_touches_its_own_partition_only(bench: Bench) -> None:
    await crowd(bench)
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    _, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [make_observation()])
        assert await partitions_locked(session) == {partition_name("observation", digest)}


async def test_registering_and_writing_evidence_do_not_wait_for_each_other(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    _, run_id = await bench.start_run(block)
    async with bench.database.transaction() as writing:
        await EvidenceRepository(writing).record_observations(run_id, block.fence, [make_observation()])
        async with bench.database.transaction() as registering:
            await registering.execute(text("SET LOCAL lock_timeout = '2s'"))
            await ExperimentRepository(registering).add(make_manifest(schedule_seed=7))
            await writing.execute(text("SET LOCAL lock_timeout = '2s'"))
            await EvidenceRepository(writing).record_observations(
                run_id, block.fence, [make_observation("tasks-low-1")]
            )


async def test_two_registrations_at_once_both_succeed(bench: Bench) -> None:
    await asyncio.gather(*(bench.register(schedule_seed=seed) for seed in range(5, 11)))
    async with bench.database.reader() as session:
        assert len(await partition_stems(session)) == 6


async def test_an_experiment_registered_anew_finds_nothing_of_the_one_before(bench: Bench) -> None:
    """Whatever a deletion that was cut off has left."""
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    _, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        await EvidenceRepository(session).record_observations(run_id, block.fence, [make_observation()])
    sql(bench.database, "DELETE FROM experiment WHERE digest = %s", digest)
    assert await bench.register(blocks=1) == digest
    assert sql(bench.database, "SELECT count(*) FROM observation") == [(0,)]


async def test_dropping_takes_this_experiment_alone_and_gives_up_behind_a_reader(
    bench: Bench, database: Database
) -> None:
    kept, dropped = await bench.register(schedule_seed=5), await bench.register(schedule_seed=6)
    async with database.reader() as reading:
        await reading.execute(text("SELECT count(*) FROM observation"))
        with pytest.raises(Exception, match="lock timeout"):
            async with database.transaction() as session:
                await drop_partitions(session, dropped)
        assert sql(database, FOUND_WAITING) == []
    async with database.transaction() as session:
        await drop_partitions(session, dropped)
        assert await partition_stems(session) == {kept[:32]}


def test_only_a_digest_becomes_part_of_a_name() -> None:
    with pytest.raises(ValueError, match="not a digest"):
        partition_name("observation", "x; DROP TABLE run")
