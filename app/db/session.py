"""How code reaches Postgres: a transaction that commits or rolls back, or a read-only snapshot.

Nobody else commits.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from psycopg import AsyncConnection
from sqlalchemy import NullPool
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from app.db.visible.repository import VisibleSession

RETRY_PAUSE_S = 0.5
CUSTOM_PLANS = "-c plan_cache_mode=force_custom_plan"
"""A plan for any experiment would open, and lock, the partitions of every one."""

T = TypeVar("T")


class CommitUnknown(OSError):
    """Whether a transaction was committed cannot be known; whoever can must look."""


class Database:
    """One Postgres database. ``pooled=False`` is for a task that owns a short-lived event loop."""

    def __init__(self, url: str, *, pooled: bool = True) -> None:
        self.url = url
        self._engine = _engine(url, pooled=pooled)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncSession]:
        """A session whose work is committed at the end, or rolled back if the block raises."""
        async with self._session() as session, session.begin():
            yield session

    async def persist(self, work: Callable[[AsyncSession], Awaitable[T]], *, patience_s: float) -> T:
        """Do ``work`` in a transaction, again while the database is away for at most ``patience_s``.

        Only what surely was not committed is done again; where the commit itself breaks, its error is raised.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return await self._attempt(work)
            except (OSError, OperationalError, InterfaceError) as away:
                if isinstance(away, CommitUnknown) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _attempt(self, work: Callable[[AsyncSession], Awaitable[T]]) -> T:
        async with self._session() as session:
            done = await work(session)
            try:
                await session.commit()
            except (OSError, OperationalError, InterfaceError) as broken:
                raise CommitUnknown(f"the database went away during a commit: {broken}") from broken
            return done

    @asynccontextmanager
    async def reader(self) -> AsyncGenerator[AsyncSession]:
        """A read-only session that sees one snapshot through all its queries."""
        async with self._session() as session:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            await session.connection(execution_options=options)
            yield session

    def _session(self) -> AsyncSession:
        return AsyncSession(self._engine, expire_on_commit=False, sync_session_class=VisibleSession)

    async def dispose(self) -> None:
        """Close every connection of the pool."""
        await self._engine.dispose()


async def driver(session: AsyncSession) -> AsyncConnection[Any]:
    """The psycopg connection of a session's transaction, for what goes faster without SQLAlchemy between."""
    connection = await (await session.connection()).get_raw_connection()
    if connection.driver_connection is None:
        raise RuntimeError("the pool gave a connection without a driver")
    return cast("AsyncConnection[Any]", connection.driver_connection)


def _engine(url: str, *, pooled: bool) -> AsyncEngine:
    arguments = {"connect_timeout": 10, "application_name": "verdraft", "options": CUSTOM_PLANS}
    if pooled:
        return create_async_engine(url, connect_args=arguments, pool_pre_ping=True, pool_size=5, max_overflow=10)
    return create_async_engine(url, connect_args=arguments, poolclass=NullPool)
