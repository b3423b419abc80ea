"""Who gets which accelerators when: one holder each, shares, priorities, large blocks, and no deadlock in a crowd."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import text

from app.accelerators.repository import AcceleratorRepository
from app.db.session import Database
from app.domain.errors import DomainError
from app.domain.lifecycle import BlockState
from app.experiments.repository import ExperimentRepository
from app.leases.repository import ClaimedBlock, LeaseRepository
from app.runs.repository import SessionRepository
from tests.db.hosts import Host, expire, host, register, sql, until, waits_for_a_lock


async def leased(database: Database) -> dict[str, int]:
    """Accelerator ``host/name`` → how many blocks it is leased to; a block's own list must say the same."""
    rows = sql(
        database,
        "SELECT a.host || '/' || a.name, b.state = 'LEASED' AND a.host || '/' || a.name = ANY(b.accelerators) "
        "FROM accelerator a JOIN block b ON b.id = a.block_id WHERE a.state = 'LEASED'",
    )
    assert all(agreed for _, agreed in rows)
    return {name: 1 for name, _ in rows}


async def test_five_hundred_claims_of_one_accelerator_have_one_holder_at_a_time(database: Database) -> None:
    for name in ("first", "second", "third"):
        await register(database, name, blocks=15)
    only = await host(database, "a", 1)
    holders: list[ClaimedBlock] = []
    claimed = 0

    async def claimer() -> None:
        nonlocal claimed
        for _ in range(25):
            block = await only.claim()
            if block is None:
                continue
            claimed += 1
            holders.append(block)
            await asyncio.sleep(0)
            assert holders == [block]
            holders.remove(block)
            await only.finish(block)

    await asyncio.gather(*(claimer() for _ in range(20)))
    assert claimed == 45
    [(done,)] = sql(database, "SELECT count(*) FROM block WHERE state = 'SUCCEEDED' AND fence = 1 AND attempt = 1")
    assert done == claimed


async def test_claims_of_different_hosts_do_not_wait_for_each_other_and_those_of_one_do(database: Database) -> None:
    await register(database, "first", blocks=1)
    await register(database, "second", blocks=1)
    one, other = await host(database, "a", 1), await host(database, "b", 1)
    async with database.transaction() as held:
        assert await LeaseRepository(held).claim(one.claimant(), 60)
        async with database.transaction() as session:
            await session.execute(text("SET LOCAL lock_timeout = '5s'"))
            assert await LeaseRepository(session).claim(other.claimant(), 60)
        waiting = asyncio.create_task(one.claim())
        await until(lambda: waits_for_a_lock(database))
    assert await waiting is None


async def owners_of(database: Database, here: Host, claims: int, *, seconds: int) -> list[str]:
    """Whose blocks were claimed one after the other, each of which took so long."""
    owners: list[str] = []
    for _ in range(claims):
        block = await here.must_claim()
        await here.finish(block)
        took = "UPDATE block SET started_at = finished_at - %s * interval '1 second' WHERE id = %s"
        sql(database, took, seconds, block.id)
        owners += [
            row[0] for row in sql(database, "SELECT owner FROM experiment WHERE digest = %s", block.experiment_id)
        ]
    return owners


async def test_owners_take_turns_however_much_one_has_queued(database: Database) -> None:
    await register(database, "early", owner="ann", blocks=5)
    await register(database, "early-too", owner="ann", blocks=5)
    await register(database, "late", owner="bob", blocks=3)
    here = await host(database, "a", 1)
    assert await owners_of(database, here, 7, seconds=60) == ["ann", "bob", "ann", "bob", "ann", "bob", "ann"]


async def test_blocks_under_way_count_for_their_owner(database: Database) -> None:
    await register(database, "early", owner="ann", blocks=3)
    bobs = await register(database, "late", owner="bob", blocks=3)
    here = await host(database, "a", 4)
    claimed = [(await here.must_claim()).experiment_id == bobs for _ in range(2)]
    assert claimed == [False, True]


async def test_what_was_used_before_the_window_is_forgotten(database: Database) -> None:
    anns = await register(database, "early", owner="ann", blocks=2)
    await register(database, "late", owner="bob", blocks=2)
    here = await host(database, "a", 1)
    await here.finish(await here.must_claim())
    sql(
        database,
        "UPDATE block SET started_at = now() - interval '30 hours', finished_at = now() - interval '25 hours' "
        "WHERE state = 'SUCCEEDED'",
    )
    assert (await here.must_claim()).experiment_id == anns


async def test_priority_comes_before_shares_and_age(database: Database) -> None:
    await register(database, "early", owner="ann", blocks=2)
    await register(database, "late", owner="bob", priority=5, blocks=2)
    here = await host(database, "a", 1)
    assert await owners_of(database, here, 3, seconds=600) == ["bob", "bob", "ann"]


async def test_a_large_block_is_overtaken_for_ten_minutes_and_then_kept_free_for(database: Database) -> None:
    large = await register(database, "large", needs=4, blocks=1)
    await register(database, "small", blocks=5)
    here, small_host = await host(database, "a", 4), await host(database, "b", 3)
    first = await here.must_claim(idle=["gpu-0"])
    age = "UPDATE block SET created_at = now() - %s * interval '1 minute' WHERE experiment_id = %s"
    sql(database, age, 9, large)
    second = await here.must_claim()
    assert large not in {first.experiment_id, second.experiment_id}

    sql(database, age, 11, large)
    assert await here.claim() is None
    assert len(await leased(database)) == 2
    assert (await small_host.must_claim()).experiment_id != large
    await here.finish(first)
    assert await here.claim() is None
    await here.finish(second)
    block = await here.must_claim()
    assert (block.experiment_id, block.accelerators) == (large, here.places)


async def test_a_quarantined_accelerator_does_not_let_a_large_block_hold_up_its_host(database: Database) -> None:
    large = await register(database, "large", needs=4, blocks=1)
    await register(database, "small", blocks=1)
    here = await host(database, "a", 4)
    sql(database, "UPDATE block SET created_at = now() - interval '1 hour' WHERE experiment_id = %s", large)
    async with database.transaction() as session:
        await AcceleratorRepository(session).quarantine("a", ["gpu-3"], "memory was left in it")
    assert (await here.must_claim()).experiment_id != large


async def test_accelerators_are_leased_all_or_none_and_come_back_together(database: Database) -> None:
    await register(database, "pair", needs=2, blocks=2)
    here = await host(database, "a", 3)
    block = await here.must_claim()
    assert len(block.accelerators) == 2
    assert set(await leased(database)) == set(block.addresses)
    assert await here.claim() is None
    assert set(await leased(database)) == set(block.addresses)
    await here.finish(block)
    assert await leased(database) == {}
    assert await here.claim() is not None


async def test_an_interrupted_block_gets_the_accelerators_that_it_had(database: Database) -> None:
    await register(database, "pair", needs=2, blocks=1)
    here = await host(database, "a", 4)
    before = await here.must_claim(idle=["gpu-1", "gpu-3"])
    expire(database, before)
    async with database.transaction() as session:
        assert await LeaseRepository(session).reap_expired() == 1
    again = await here.must_claim()
    assert set(again.accelerators) == {"gpu-1", "gpu-3"}
    await here.give_back(again, tried=False)
    moved = await here.must_claim(idle=["gpu-0", "gpu-2", "gpu-3"])
    assert set(moved.accelerators) == {"gpu-0", "gpu-3"}


async def test_a_block_waits_in_the_queue_of_its_kind_and_until_its_time(database: Database) -> None:
    await register(database, "elsewhere", kind="B200", blocks=1)
    ours = await register(database, "here", blocks=1)
    here = await host(database, "a", 1)
    block = await here.must_claim()
    assert block.experiment_id == ours
    await here.give_back(block)
    async with database.transaction() as session:
        assert await LeaseRepository(session).queued("H200") == 0
        assert await LeaseRepository(session).queued("B200") == 1
    assert await here.claim() is None
    sql(database, "UPDATE block SET not_before = now() WHERE id = %s", block.id)
    assert (await here.must_claim()).attempt == 2


@dataclass
class Crowd:
    """Everyone who writes about blocks and accelerators, in no order."""

    database: Database
    hosts: list[Host]
    digests: list[str]
    chance: random.Random
    held: list[ClaimedBlock] = field(default_factory=list[ClaimedBlock])

    async def member(self, moves: list[str]) -> None:
        """One after the other; what the domain refuses (a stale fence, say) is expected, a database's error is not."""
        for move in moves:
            with suppress(DomainError):
                await getattr(self, move)()

    async def claim(self) -> None:
        block = await self.chance.choice(self.hosts).claim(lease_s=self.chance.choice([0, 60]))
        self.held += [] if block is None else [block]

    async def finish(self) -> None:
        for block in self.chance.sample(self.held, min(1, len(self.held))):
            await self.hosts[0].finish(block)

    async def give_back(self) -> None:
        for block in self.chance.sample(self.held, min(1, len(self.held))):
            await self.hosts[0].give_back(block, tried=self.chance.random() < 0.3)

    async def write(self) -> None:
        for block in self.chance.sample(self.held, min(1, len(self.held))):
            async with self.database.transaction() as session:
                runs, position = SessionRepository(session), self.chance.randrange(10**6)
                session_id = await runs.start_session(block.id, block.fence, "target-only", position)
                await runs.start_run(session_id, block.fence, "tasks", "low")

    async def beat(self) -> None:
        for block in self.chance.sample(self.held, min(1, len(self.held))):
            async with self.database.transaction() as session:
                await LeaseRepository(session).heartbeat(block.id, block.fence, 60)

    async def reap(self) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).reap_expired()

    async def stop_host(self) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).release(self.chance.choice(self.hosts).name)

    async def publish(self) -> None:
        await self.chance.choice(self.hosts).publish()

    async def quarantine(self) -> None:
        here = self.chance.choice(self.hosts)
        names = self.chance.sample(here.places, 2)
        async with self.database.transaction() as session:
            await AcceleratorRepository(session).quarantine(here.name, names, "looked odd")
        for name in names:
            async with self.database.transaction() as session:
                await AcceleratorRepository(session).release(here.name, name)

    async def cancel(self) -> None:
        if self.chance.random() < 0.02:
            async with self.database.transaction() as session:
                await ExperimentRepository(session).cancel(self.chance.choice(self.digests))


MOVES: tuple[str, ...] = (
    "claim",
    "claim",
    "claim",
    "finish",
    "give_back",
    "write",
    "beat",
    "reap",
    "stop_host",
    "publish",
    "quarantine",
)


async def test_a_crowd_of_every_kind_of_writer_never_deadlocks(database: Database) -> None:
    digests = [await register(database, f"needs-{n}", needs=n, blocks=30) for n in (1, 2, 4)]
    crowd = Crowd(database, [await host(database, name, 4) for name in ("a", "b")], digests, random.Random(6))
    members = [crowd.chance.choices((*MOVES, "cancel"), k=12) for _ in range(40)]
    await asyncio.gather(*map(crowd.member, members))
    assert len(crowd.held) > 20
    rows = sql(
        database,
        "SELECT b.state, b.accelerator_count, count(a.name), count(DISTINCT a.host) FROM block b "
        "LEFT JOIN accelerator a ON a.block_id = b.id AND a.state = 'LEASED' GROUP BY b.id",
    )
    for state, needed, has, of_hosts in rows:  # of a leased block some may be in quarantine
        assert (has, of_hosts) == (0, 0) if state != BlockState.LEASED else (has <= needed and of_hosts <= 1)
