"""Observations and series live in one partition per experiment, so that forgetting an experiment drops two tables."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

PARTITIONED: Final = ("observation", "series")
_DIGITS = 32
"""Of the digest in a partition's name: PostgreSQL cuts names at 63 bytes."""


def partition_name(table: str, experiment: str) -> str:
    """The partition's table; ``experiment`` is a hex digest, so it needs no quoting."""
    if not experiment.isalnum():
        raise ValueError(f"{experiment!r} is not a digest")
    return f"{table}_{experiment[:_DIGITS]}"


async def create_partitions(session: AsyncSession, experiment: str) -> None:
    """Make room for an experiment's evidence. Attached, not created in place: reads and writes go on meanwhile."""
    for table in PARTITIONED:
        name = partition_name(table, experiment)
        await session.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
        await session.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES IN ('{experiment}')"))


async def drop_partitions(session: AsyncSession, experiment: str) -> None:
    """Drop an experiment's evidence; nothing of any other experiment is touched."""
    for table in PARTITIONED:
        await session.execute(text(f"DROP TABLE IF EXISTS {partition_name(table, experiment)}"))
