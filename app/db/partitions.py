"""Observations and series live in one partition per experiment, so that forgetting an experiment drops two tables."""

from typing import Final
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

PARTITIONED: Final = ("observation", "series")
CASES: Final = "request_case"
"""Its partition is made with the first case and goes with the others."""
DIGITS: Final = 32
"""Of the digest in a partition's name: PostgreSQL cuts names at 63 bytes."""
DROP_PATIENCE_MS: Final = 200


def partition_name(table: str, experiment: str) -> str:
    """The partition's table; ``experiment`` is a hex digest, so it needs no quoting."""
    if not experiment.isalnum():
        raise ValueError(f"{experiment!r} is not a digest")
    return f"{table}_{experiment[:DIGITS]}"


async def create_partitions(session: AsyncSession, experiment: str) -> None:
    """Make room for an experiment's evidence. Attached, not created in place: reads and writes go on meanwhile.

    What a deletion that was cut off has left under these names is dropped first.
    """
    await hold_partitions(session, experiment)
    for table in PARTITIONED:
        name = partition_name(table, experiment)
        await session.execute(text(f"DROP TABLE IF EXISTS {name}"))
        await session.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
        await session.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES IN ('{experiment}')"))


async def clear_cases(session: AsyncSession, experiment: str) -> None:
    """Make room for an experiment's cases, or for all of them anew."""
    name = partition_name(CASES, experiment)
    await session.execute(text(f"DROP TABLE IF EXISTS {name}"))
    await session.execute(text(f"CREATE TABLE {name} (LIKE {CASES} INCLUDING ALL)"))
    await session.execute(text(f"ALTER TABLE {CASES} ATTACH PARTITION {name} FOR VALUES IN ('{stem_of(experiment)}')"))


def stem_of(experiment: str) -> UUID:
    """By which an experiment's cases are told from others'."""
    return UUID(experiment[:DIGITS])


async def drop_partitions(session: AsyncSession, experiment: str) -> None:
    """Drop an experiment's evidence; nothing of any other experiment is touched.

    The parent is locked for an instant. Rather than let everybody queue behind a long reader, this gives up
    (``OperationalError``) after ``DROP_PATIENCE_MS``; whoever calls tries again.
    """
    await session.execute(text(f"SET LOCAL lock_timeout = {DROP_PATIENCE_MS}"))
    for table in (CASES, *PARTITIONED):
        await session.execute(text(f"DROP TABLE IF EXISTS {partition_name(table, experiment)}"))


async def hold_partitions(session: AsyncSession, experiment: str) -> None:
    """Let nobody else make or drop this experiment's partitions until the transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(experiment[:DIGITS], 0))))


async def partition_stems(session: AsyncSession) -> set[str]:
    """The first digits of each experiment that has partitions, whether or not the experiment is still there."""
    query = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'observation'::regclass")
    return {name.removeprefix("observation_") for name in await session.scalars(query)}
