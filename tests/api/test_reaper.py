"""The web process takes back what no worker does: on a real database, one at a time, through an outage."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy import func, select, text
from structlog.testing import capture_logs

from app.db.session import Database
from app.domain.lifecycle import BlockState
from app.domain.retry import ATTEMPTS_MAX
from app.leases import reaper
from app.leases.reaper import reap_once, reaping
from app.leases.reaping.repository import REAPER
from app.main import create_app
from app.settings import Settings
from tests.conftest import client_of
from tests.factories_operations import GPU, Floor

PERIOD_S = 0.02
PATIENCE_S = 20
AWAY = "postgresql+psycopg://nobody@127.0.0.1:1/none"

Woken = list[str]


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> Woken:
    """The kinds whose workers were woken."""
    kinds: Woken = []

    def wake(_: Settings, kind: str) -> None:
        kinds.append(kind)

    monkeypatch.setattr(reaper, "wake", wake)
    return kinds


@pytest.fixture
async def floor(database: Database) -> Floor:
    """A host with three GPUs, and an experiment of two blocks."""
    made = Floor(database)
    await made.publish("gpu1")
    await made.register("demo")
    return made


async def column(database: Database, query: str) -> list[Any]:
    async with database.reader() as session:
        return list((await session.scalars(text(query))).all())


async def until(true: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await true():  # noqa: ASYNC110  (the database has no event for it)
            await asyncio.sleep(PERIOD_S)


async def test_an_expired_lease_is_taken_back_told_and_its_kind_woken(
    floor: Floor, settings: Settings, woken: Woken
) -> None:
    block = await floor.claim("gpu1:7")
    await floor.expire(block)
    with capture_logs() as logs:
        (reaped,) = await reap_once(floor.database, settings)
    assert (reaped.experiment_id, reaped.block, reaped.worker) == (block.experiment_id, 0, "gpu1:7")
    assert reaped.state is BlockState.QUEUED
    assert await column(floor.database, "SELECT state FROM block") == ["QUEUED", "QUEUED"]
    assert set(await column(floor.database, "SELECT state FROM accelerator")) == {"FREE"}
    assert woken == [GPU]
    (line,) = logs
    assert (line["experiment"], line["block"], line["worker"]) == (block.experiment_id, 0, "gpu1:7")


async def test_a_lease_that_stands_is_left_alone(floor: Floor, settings: Settings, woken: Woken) -> None:
    await floor.claim("gpu1:7")
    assert await reap_once(floor.database, settings) == []
    assert await column(floor.database, "SELECT state FROM block ORDER BY index") == ["LEASED", "QUEUED"]
    assert woken == []


async def test_after_the_last_attempt_nobody_is_woken(floor: Floor, settings: Settings, woken: Woken) -> None:
    block = await floor.claim("gpu1:7")
    await floor.expire(block)
    await floor.run("UPDATE block SET attempt = :last WHERE id = :id", last=ATTEMPTS_MAX, id=block.id)
    (reaped,) = await reap_once(floor.database, settings)
    assert reaped.state is BlockState.FAILED
    assert woken == []


async def test_only_one_process_reaps_at_a_time(floor: Floor, settings: Settings, woken: Woken) -> None:
    await floor.expire(await floor.claim("gpu1:7"))
    async with floor.database.transaction() as session:
        await session.execute(select(func.pg_advisory_xact_lock(REAPER)))
        assert await reap_once(floor.database, settings) == []
    assert len(await reap_once(floor.database, settings)) == 1


async def test_the_task_looks_again_and_again(floor: Floor, settings: Settings, woken: Woken) -> None:
    async with reaping(floor.database, settings, period_s=PERIOD_S):
        for times in (1, 2):
            await floor.expire(await floor.claim("gpu1:7"))
            await until(lambda times=times: _is(len(woken) == times))


async def test_a_database_that_is_away_is_said_each_time_and_ends_nothing(settings: Settings) -> None:
    database = Database(AWAY)
    with capture_logs() as logs:
        async with reaping(database, settings, period_s=PERIOD_S):
            await until(lambda: _is(len(logs) >= 3))
    assert {line["log_level"] for line in logs} == {"warning"}
    assert all("\n" not in line["error"] for line in logs)
    await database.dispose()


async def test_a_fault_of_ours_is_recorded_and_ends_nothing(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(reaper, "reap_once", broken)
    with capture_logs() as logs:
        async with reaping(database, settings, period_s=PERIOD_S):
            await until(lambda: _is(len(logs) >= 2))
    assert {line["log_level"] for line in logs} == {"error"}


async def test_it_stops_at_once_even_while_it_waits_for_a_lock(floor: Floor, settings: Settings, woken: Woken) -> None:
    await floor.expire(await floor.claim("gpu1:7"))
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'block'::regclass"
    async with floor.database.transaction() as session:
        await session.execute(text("LOCK TABLE block IN ACCESS EXCLUSIVE MODE"))
        async with asyncio.timeout(PATIENCE_S), reaping(floor.database, settings, period_s=PERIOD_S):
            await until(lambda: _some(floor.database, waiting))
    assert len(await reap_once(floor.database, settings)) == 1  # the lock went with the task


async def test_the_application_reaps_while_it_lives(settings: Settings) -> None:
    def reapers() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "reaper"]

    async with client_of(create_app(settings), settings):
        assert reapers() == ["reaper"]
    assert reapers() == []


async def _is(true: bool) -> bool:
    return true


async def _some(database: Database, query: str) -> bool:
    return bool((await column(database, query))[0])
