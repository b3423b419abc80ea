"""Hosts with accelerators, experiments that need some of them, and what workers do; each call its own transaction."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import psycopg

from app.accelerators.repository import AcceleratorRepository
from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import Claimant, ClaimedBlock, LeaseRepository
from tests.conftest import libpq_url
from tests.factories import make_manifest, make_trace

KIND = "H200"
SERVING = {"dtype": "float32", "max_model_len": 512, "max_num_seqs": 8, "prefix_caching": False, "enforce_eager": True}
INFRA = Failure(failure_class=FailureClass.INFRA, message="the disk is full")


async def register(
    database: Database,
    name: str,
    *,
    needs: int = 1,
    kind: str = KIND,
    owner: str = "local",
    priority: int = 0,
    **more: Any,
) -> str:
    """An experiment whose blocks need so many accelerators of ``kind``; ``more`` as in ``make_manifest``."""
    hardware = {"accelerator": kind, "count": 8, "topology": "8 GPUs"}
    serving = {**SERVING, "tensor_parallel_size": needs}
    manifest = make_manifest(name=name, hardware=hardware, serving=serving, **more)
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(make_trace())
        await ExperimentRepository(session).add(manifest, owner, priority)
    return manifest.digest


@dataclass(frozen=True, slots=True)
class Host:
    """A host and its accelerators ``gpu-0``, ``gpu-1`` and so on."""

    database: Database
    name: str
    places: tuple[str, ...]
    kind: str = KIND

    async def publish(self) -> None:
        async with self.database.transaction() as session:
            await AcceleratorRepository(session).publish(self.name, dict.fromkeys(self.places, self.kind))

    async def claim(self, *, idle: Collection[str] | None = None, lease_s: float = 60) -> ClaimedBlock | None:
        """The next block for a worker that sees ``idle`` accelerators: all of the host's unless said otherwise."""
        async with self.database.transaction() as session:
            return await LeaseRepository(session).claim(self.claimant(idle), lease_s)

    async def must_claim(self, *, idle: Collection[str] | None = None) -> ClaimedBlock:
        block = await self.claim(idle=idle)
        assert block is not None
        return block

    def claimant(self, idle: Collection[str] | None = None) -> Claimant:
        return Claimant(f"{self.name}:1", self.kind, self.places if idle is None else tuple(idle))

    async def finish(self, block: ClaimedBlock, state: BlockState = BlockState.SUCCEEDED) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).finish(block.id, block.fence, state, None)

    async def give_back(self, block: ClaimedBlock, failure: Failure = INFRA, *, tried: bool = True) -> None:
        async with self.database.transaction() as session:
            await LeaseRepository(session).give_back(block.id, block.fence, failure, tried=tried)


async def host(database: Database, name: str, places: int) -> Host:
    """A host that has published ``places`` accelerators."""
    made = Host(database, name, tuple(f"gpu-{number}" for number in range(places)))
    await made.publish()
    return made


def sql(database: Database, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the database answers to anyone who asks it directly; also how its time is moved."""
    with psycopg.connect(libpq_url(database.url), autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def expire(database: Database, block: ClaimedBlock) -> None:
    """Let a lease run out by the database's own clock."""
    sql(database, "UPDATE block SET lease_expires_at = now() - interval '1 second' WHERE id = %s", block.id)


async def until(holds: Callable[[], bool]) -> None:
    """Look again and again; a test's own time limit ends a wait that has no end."""
    while not holds():  # noqa: ASYNC110  (what is waited for happens in other processes)
        await asyncio.sleep(0.01)


def waits_for_a_lock(database: Database) -> bool:
    """Whether anybody does."""
    return bool(
        sql(
            database,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
    )
