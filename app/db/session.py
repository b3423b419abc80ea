"""How code reaches Postgres: a transaction that commits or rolls back, or a read-only snapshot.

Nobody else commits.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine


class Database:
    """One Postgres database. ``pooled=False`` is for a task that owns a short-lived event loop."""

    def __init__(self, url: str, *, pooled: bool = True) -> None:
        self.url = url
        self._engine = _engine(url, pooled=pooled)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncSession]:
        """A session whose work is committed at the end, or rolled back if the block raises."""
        async with AsyncSession(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @asynccontextmanager
    async def reader(self) -> AsyncGenerator[AsyncSession]:
        """A read-only session that sees one snapshot through all its queries."""
        async with AsyncSession(self._engine, expire_on_commit=False) as session:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            await session.connection(execution_options=options)
            yield session

    async def dispose(self) -> None:
        """Close every connection of the pool."""
        await self._engine.dispose()


def _engine(url: str, *, pooled: bool) -> AsyncEngine:
    arguments = {"connect_timeout": 10, "application_name": "verdraft"}
    if pooled:
        return create_async_engine(url, connect_args=arguments, pool_pre_ping=True, pool_size=5, max_overflow=10)
    return create_async_engine(url, connect_args=arguments, poolclass=NullPool)
