"""A lease is held on a real database that answers late, not at all, or not to writers; the story always ends first."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from app.db.session import Database
from app.experiments.repository import ExperimentRepository
from app.leases.repository import CLAIMS, ClaimedBlock, LeaseRepository
from app.settings import Settings
from tests.conftest import libpq_url
from tests.db.hosts import KIND, expire, host, register, sql, until, waits_for_a_lock
from worker.accelerators import Accelerators
from worker.conductor import _claim
from worker.engine.server import EngineLeftBehind
from worker.lease import CancelRequested, HandOver, Lease, LeaseLost, Terms

EAGER = Terms(lease_s=60, heartbeat_s=0.05, self_fence_s=30)
IMPATIENT = Terms(lease_s=60, heartbeat_s=0.05, self_fence_s=0.5)


@dataclass(frozen=True, slots=True)
class Desk:
    """One claimed block, the database as its worker reaches it, and the database as it is."""

    database: Database
    block: ClaimedBlock
    through: "Gate"

    def lease(self, terms: Terms, leaving: Callable[[], bool] = lambda: False) -> Lease:
        return Lease(self.through.database, self.block, terms, leaving)

    def expires_at(self) -> Any:
        return self._of_block("lease_expires_at")

    def is_still_leased(self) -> bool:
        """By the database's clock."""
        return self._of_block("state = 'LEASED' AND lease_expires_at > now()")

    async def beats(self, times: int = 2) -> None:
        """Until the lease has been extended so often."""
        for _ in range(times):
            before = self.expires_at()
            await until(lambda before=before: self.expires_at() != before)

    async def cancel(self) -> None:
        async with self.database.transaction() as session:
            await ExperimentRepository(session).cancel(self.block.experiment_id)

    def _of_block(self, expression: str) -> Any:
        statement = f"SELECT {expression} FROM block WHERE id = %s"  # noqa: S608  (ours)
        return sql(self.database, statement, self.block.id)[0][0]


@dataclass(frozen=True, slots=True)
class Gate:
    """The only way to the database's sockets: a link that can be taken away."""

    link: Path
    sockets: str
    database: Database

    def close(self) -> None:
        self.link.unlink()

    def open(self) -> None:
        self.link.symlink_to(self.sockets)


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncGenerator[Desk]:
    await register(database, "held", blocks=2)
    here = await host(database, "here", 2)
    url = make_url(database.url)
    link = tmp_path / "sockets"
    through = url.set(query={**url.query, "host": str(link)}).render_as_string(hide_password=False)
    gate = Gate(link, str(url.query["host"]), Database(through, pooled=False))
    gate.open()
    yield Desk(database, await here.must_claim(), gate)
    await gate.database.dispose()


@dataclass
class Story:
    """Runs until it is stopped, then cleans up."""

    clean_up: Callable[[], Awaitable[None]] | None = None
    started: bool = False
    stopped: bool = False

    def tell(self, also: Callable[[], Awaitable[None]] | None = None) -> Coroutine[Any, Any, None]:
        return self._tell(also)

    async def _tell(self, also: Callable[[], Awaitable[None]] | None) -> None:
        self.started = True
        try:
            if also is not None:
                await also()
            await asyncio.Event().wait()
        finally:
            if self.clean_up is not None:
                await self.clean_up()
            self.stopped = True


async def test_a_story_that_ends_ends_the_holding_and_the_lease_was_extended(desk: Desk) -> None:
    await desk.lease(EAGER).hold(desk.beats())
    assert len(asyncio.all_tasks()) == 1


async def test_a_storys_own_failure_is_told_as_it_is(desk: Desk) -> None:
    async def fail() -> None:
        raise ValueError("a failure of its own")

    with pytest.raises(ValueError, match="of its own"):
        await desk.lease(EAGER).hold(fail())
    assert len(asyncio.all_tasks()) == 1


async def test_cancel_stops_the_story_whose_cleanup_is_still_under_a_lease(desk: Desk) -> None:
    story = Story()
    with pytest.raises(CancelRequested):
        await desk.lease(EAGER).hold(story.tell(desk.cancel))
    assert story.stopped
    assert desk.is_still_leased()


async def test_a_worker_that_leaves_hands_over_after_a_cleanup_under_a_beating_lease(desk: Desk) -> None:
    story = Story(clean_up=desk.beats)
    with pytest.raises(HandOver):
        await desk.lease(EAGER, leaving=lambda: story.started).hold(story.tell())
    assert story.stopped
    assert desk.is_still_leased()


async def test_a_lease_that_another_one_has_is_lost(desk: Desk) -> None:
    async def take_back() -> None:
        expire(desk.database, desk.block)
        async with desk.database.transaction() as session:
            await LeaseRepository(session).reap_expired()

    story = Story()
    with pytest.raises(LeaseLost):
        await desk.lease(EAGER).hold(story.tell(take_back))
    assert story.stopped


async def test_a_lease_that_is_over_but_that_nobody_took_is_kept(desk: Desk) -> None:
    expire(desk.database, desk.block)
    await desk.lease(EAGER).hold(desk.beats())
    assert desk.is_still_leased()


async def test_expired_leases_of_others_are_taken_back_meanwhile(desk: Desk) -> None:
    other = await (await host(desk.database, "there", 1)).must_claim()
    expire(desk.database, other)

    def is_back() -> bool:
        return sql(desk.database, "SELECT state FROM block WHERE id = %s", other.id) == [("QUEUED",)]

    await desk.lease(EAGER).hold(until(is_back))


async def test_without_a_database_the_holder_gives_up_before_its_lease_is_over(desk: Desk) -> None:
    async def lose_the_database() -> None:
        await desk.beats()
        desk.through.close()

    story = Story()
    with pytest.raises(LeaseLost):
        await desk.lease(IMPATIENT).hold(story.tell(lose_the_database))
    assert story.stopped
    assert desk.is_still_leased()


async def test_a_database_that_comes_back_in_time_costs_nothing(desk: Desk) -> None:
    async def be_away_for_a_while() -> None:
        desk.through.close()
        await until(lambda: any(entry["event"] == "heartbeat failed" for entry in heard))
        desk.through.open()
        await desk.beats()

    with capture_logs() as heard:
        await desk.lease(EAGER).hold(be_away_for_a_while())
    assert desk.is_still_leased()


async def test_a_database_that_takes_no_writes_counts_as_away(desk: Desk) -> None:
    name = str(make_url(desk.database.url).database)
    try:
        sql(desk.database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        with pytest.raises(LeaseLost):
            await desk.lease(IMPATIENT).hold(Story().tell())
    finally:
        sql(
            desk.database,
            f'SET transaction_read_only = off; ALTER DATABASE "{name}" RESET default_transaction_read_only',
        )
    assert desk.is_still_leased()


@contextmanager
def locked(desk: Desk) -> Generator["psycopg.Connection[tuple[Any, ...]]"]:
    """Somebody's transaction that has the block's row and does not end."""
    with psycopg.connect(libpq_url(desk.database.url)) as connection:
        connection.execute("SELECT 1 FROM block WHERE id = %s FOR NO KEY UPDATE", [desk.block.id])
        yield connection
        connection.rollback()


async def test_a_heartbeat_that_waits_for_a_lock_is_one_that_fails(desk: Desk) -> None:
    story = Story()
    with locked(desk), pytest.raises(LeaseLost):
        await desk.lease(IMPATIENT).hold(story.tell())
    assert story.stopped
    assert desk.is_still_leased()


async def test_a_late_answer_does_not_lengthen_the_lease(desk: Desk) -> None:
    """The lease counts from when the database was asked, so what is left of it must, too."""
    terms = Terms(lease_s=6, heartbeat_s=0.1, self_fence_s=4)

    async def answer_late_and_never_again() -> None:
        await desk.beats()
        with locked(desk):
            await asyncio.sleep(3)
        await desk.beats(1)
        desk.through.close()

    with pytest.raises(LeaseLost):
        await desk.lease(terms).hold(Story().tell(answer_late_and_never_again))
    assert desk.is_still_leased()


@contextmanager
def frozen(database: Database) -> Generator[None]:
    """Every server process that works for this database stands still, and answers nobody."""
    with psycopg.connect(libpq_url(database.url), autocommit=True) as connection:
        others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        pids = [row[0] for row in connection.execute(others + " AND backend_type = 'client backend'").fetchall()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(os.geteuid() != 0, reason="the server's processes may belong to another user")
async def test_a_server_that_stands_still_does_not_keep_the_story_running(desk: Desk) -> None:
    pooled = Database(desk.database.url)
    async with pooled.transaction() as session:  # a connection that the heartbeats will use
        await LeaseRepository(session).queued(KIND)
    story = Story()
    with frozen(pooled), pytest.raises(LeaseLost):
        await Lease(pooled, desk.block, IMPATIENT, lambda: False).hold(story.tell())
    assert story.stopped
    await pooled.dispose()


async def test_a_cleanup_that_fails_is_told_rather_than_why_it_was_needed(desk: Desk) -> None:
    async def fail() -> None:
        raise EngineLeftBehind("processes [7] survived SIGKILL")

    story = Story(clean_up=fail)
    with pytest.raises(EngineLeftBehind, match="survived"):
        await desk.lease(EAGER, leaving=lambda: story.started).hold(story.tell())


async def test_a_story_that_ends_at_the_moment_when_it_is_to_stop_has_ended(desk: Desk) -> None:
    async def end() -> None:
        """At its first step, as does whoever finds that the worker is leaving."""

    await desk.lease(EAGER, leaving=lambda: True).hold(end())


async def test_a_story_that_fails_at_the_moment_when_it_is_to_stop_has_failed(desk: Desk) -> None:
    async def fail() -> None:
        raise ValueError("a failure of its own")

    with pytest.raises(ValueError, match="of its own"):
        await desk.lease(EAGER, leaving=lambda: True).hold(fail())


async def test_a_holding_that_is_itself_canceled_leaves_no_task(desk: Desk) -> None:
    story = Story(clean_up=desk.beats)
    holding = asyncio.create_task(desk.lease(EAGER).hold(story.tell()))
    await until(lambda: story.started)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert story.stopped
    assert len(asyncio.all_tasks()) == 1


def touch(connection: "psycopg.Connection[tuple[Any, ...]]", experiment_id: str) -> None:
    """What every writer does last; whoever waits for this transaction must not have the experiment.

    The limit is below the second after which Postgres would resolve a deadlock at the other one's expense.
    """
    connection.execute("SET LOCAL lock_timeout = '500ms'")
    connection.execute("UPDATE experiment SET version = version + 1 WHERE digest = %s", [experiment_id])


async def test_a_heartbeat_that_waits_for_its_own_writer_holds_nothing_that_it_needs(desk: Desk) -> None:
    other = await (await host(desk.database, "there", 1)).must_claim()
    assert other.experiment_id == desk.block.experiment_id

    expire(desk.database, other)
    with locked(desk) as writer:

        async def write() -> None:
            await until(lambda: waits_for_a_lock(desk.database))
            touch(writer, desk.block.experiment_id)

        await desk.lease(EAGER).hold(write())


async def test_a_claim_that_waits_for_its_host_holds_nothing_that_another_claim_needs(
    desk: Desk, settings: Settings
) -> None:
    settings.home.mkdir(parents=True)
    expire(desk.database, desk.block)
    with psycopg.connect(libpq_url(desk.database.url)) as claimer:
        claimer.execute("SELECT pg_advisory_xact_lock(%s, hashtext('here'))", [CLAIMS])
        claiming = asyncio.create_task(_claim(desk.database, settings, "here:2", Accelerators(KIND, ("gpu-0",))))
        await until(lambda: waits_for_a_lock(desk.database))
        touch(claimer, desk.block.experiment_id)
    assert await claiming is not None
