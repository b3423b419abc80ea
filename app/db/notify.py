"""Tell pages that an experiment changed: NOTIFY inside the transaction, so no event precedes its row.

An event carries an id and a version, never the change itself; readers fetch what they need.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import psycopg
from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession

CHANNEL = "verdraft_experiment"


@dataclass(frozen=True, slots=True)
class Change:
    """An experiment reached a version."""

    experiment: str
    version: int


async def publish(session: AsyncSession, change: Change) -> None:
    """Send ``change`` when, and only when, the session's transaction commits."""
    payload = json.dumps({"experiment": change.experiment, "version": change.version})
    await session.execute(select(func.pg_notify(CHANNEL, payload)))


@asynccontextmanager
async def subscribe(url: str, timeout_s: float | None = None) -> AsyncGenerator[AsyncIterator[Change]]:
    """Every change committed after this context is entered, until ``timeout_s``, on a connection of its own."""
    conninfo = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        async with aclosing(connection.notifies(timeout=timeout_s)) as notices:  # while open it locks the connection
            yield (_change(notice) async for notice in notices)


def _change(notice: psycopg.Notify) -> Change:
    document = json.loads(notice.payload)
    return Change(document["experiment"], document["version"])
