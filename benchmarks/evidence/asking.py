"""Ask a store what its pages ask, through the whole application, and tell how long it takes."""

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx
import psycopg
from pydantic import SecretStr
from sqlalchemy import text

from app.db.partitions import drop_partitions
from app.main import create_app
from app.settings import Settings
from benchmarks.evidence.loading import Store
from tests.conftest import client_of, libpq_url

ASKED: Final = 20
PAGE: Final = 500
P95: Final = 0.95

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """What was found with so many observations in the store; times are 95th percentiles in seconds."""

    observations: int
    cases_s: float
    series_s: float
    case_page_s: float
    register_s: float
    report_first_s: float
    report_s: float
    compare_s: float
    table_bytes: int


@asynccontextmanager
async def application(store: Store) -> AsyncGenerator[httpx.AsyncClient]:
    """The web process's application on the store, without a socket."""
    settings = Settings(home=store.home, database_url=SecretStr(store.url), log_level="WARNING")
    async with client_of(create_app(settings), settings) as client:
        yield client


async def ask(store: Store) -> Stage:
    """Look at runs and experiments of the whole store in random order, each as a reader does."""
    chance = random.Random(len(store.experiments))
    asked = [chance.choice(store.experiments) for _ in range(ASKED)]
    runs = [chance.choice(_runs(store, experiment)) for experiment in asked]
    await _forget_reports(store)
    async with application(store) as client:
        first = await _timed([asked[0]], lambda e: _get(client, f"/api/v1/experiments/{e}/report"))
        known = [asked[0]] * ASKED
        return Stage(
            observations=store.spent.observations,
            cases_s=p95(await _timed(runs, lambda r: _get(client, f"/api/v1/runs/{r}/observations?limit={PAGE}"))),
            series_s=p95(await _timed(runs, lambda r: _get(client, f"/api/v1/runs/{r}/series"))),
            case_page_s=p95(await _timed(runs, lambda r: _get(client, f"/runs/{r}"))),
            register_s=p95(await _timed(range(5), lambda _: _register(store))),
            report_first_s=first[0],
            report_s=p95(await _timed(known, lambda e: _get(client, f"/api/v1/experiments/{e}/report"))),
            compare_s=p95(await _timed(known, lambda e: _get(client, f"/experiments/{e}/compare"))),
            table_bytes=_table_bytes(store),
        )


def p95(seconds: Sequence[float]) -> float:
    """The value that 95% do not exceed."""
    return sorted(seconds)[round(P95 * (len(seconds) - 1))]


async def _timed(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> list[float]:
    found: list[float] = []
    for item in items:
        started = time.monotonic()
        await work(item)
        found.append(time.monotonic() - started)
    return found


async def _get(client: httpx.AsyncClient, path: str) -> None:
    (await client.get(path)).raise_for_status()


async def _forget_reports(store: Store) -> None:
    """So that each stage computes one."""
    async with store.database.transaction() as session:
        await session.execute(text("DELETE FROM report"))


async def _register(store: Store) -> None:
    """One experiment more, which has no evidence and is forgotten again."""
    manifest = await store.register()
    store.experiments.pop()
    async with store.database.transaction() as session:
        await drop_partitions(session, manifest.digest)
        await session.execute(text("DELETE FROM experiment WHERE digest = :digest"), {"digest": manifest.digest})


def _runs(store: Store, experiment: str) -> list[str]:
    query = (
        "SELECT r.id::text FROM run r JOIN session s ON s.id = r.session_id JOIN block b ON b.id = s.block_id"
        " WHERE b.experiment_id = %s ORDER BY r.started_at, r.id"
    )
    return [row[0] for row in _rows(store, query, experiment)]


def _table_bytes(store: Store) -> int:
    query = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'observation'::regclass"
    return int(_rows(store, query)[0][0])


def _rows(store: Store, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(libpq_url(store.url)) as connection:
        return connection.execute(query.encode(), values).fetchall()
