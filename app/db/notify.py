"""Tell pages that an experiment changed: NOTIFY inside the transaction, so no event precedes its row.

Such an event carries an id and a version, never the change itself; readers fetch what they need. Live values are the
exception: they are sent, heard by whoever looks, and stored nowhere.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession

CHANNEL = "verdraft_experiment"
LIVE_BYTES_MAX = 7900
"""Postgres takes a little more (8000) in one notification."""
CONNECT_PATIENCE_S = 5


@dataclass(frozen=True, slots=True)
class Change:
    """An experiment reached a version."""

    experiment: str
    version: int


@dataclass(frozen=True, slots=True)
class Live:
    """A live value of the experiment that is listened to: what kind, and its JSON."""

    kind: str
    body: str


async def publish(session: AsyncSession, change: Change) -> None:
    """Send ``change`` when, and only when, the session's transaction commits."""
    payload = json.dumps({"experiment": change.experiment, "version": change.version})
    await session.execute(select(func.pg_notify(CHANNEL, payload)))


class LiveSender:
    """Sends live values of one experiment on a connection of its own, opened when first needed and after it broke.

    Each is one statement that writes no row and, since no commit waits for the disk, not even the log at once.
    """

    def __init__(self, url: str, experiment: str) -> None:
        self._conninfo = _conninfo(url)
        self._channel = _live_channel(experiment)
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def send(self, live: Live) -> None:
        """Raises ``psycopg.Error`` or ``OSError`` where the database is away; the next call tries anew."""
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=CONNECT_PATIENCE_S,
                application_name="verdraft-live",
                options="-c synchronous_commit=off",
            )
        sent = False
        try:
            await self._connection.execute("SELECT pg_notify(%s, %s)", (self._channel, f"{live.kind} {live.body}"))
            sent = True
        finally:
            if not sent:
                await self._connection.close()

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()


@asynccontextmanager
async def subscribe(
    url: str, timeout_s: float | None = None, *, live_of: str | None = None
) -> AsyncGenerator[AsyncIterator[Change | Live]]:
    """Every change committed after this context is entered, until ``timeout_s``, on a connection of its own.

    With ``live_of`` also the live values of that experiment.
    """
    async with await psycopg.AsyncConnection.connect(_conninfo(url), autocommit=True) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        if live_of is not None:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(_live_channel(live_of))))
        async with aclosing(connection.notifies(timeout=timeout_s)) as notices:  # while open it locks the connection
            yield (_heard(notice) async for notice in notices)


def _conninfo(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _live_channel(experiment: str) -> str:
    """A name has at most 63 characters."""
    return f"verdraft_live_{experiment[:40]}"


def _heard(notice: psycopg.Notify) -> Change | Live:
    if notice.channel != CHANNEL:
        kind, _, body = notice.payload.partition(" ")
        return Live(kind, body)
    document = json.loads(notice.payload)
    return Change(document["experiment"], document["version"])
