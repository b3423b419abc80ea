"""A registered experiment and the moves of a worker, for tests of leases and evidence."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest

from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.evidence.repository import EvidenceRepository
from app.experiments.progress import read
from app.experiments.repository import ExperimentRepository
from app.experiments.schemas import ExperimentRead
from app.leases.repository import ClaimedBlock, LeaseRepository
from app.runs.repository import SessionRepository
from tests.conftest import libpq_url
from tests.factories import make_manifest, make_trace
from tests.factories_leases import claim_block

PATH = (SessionState.WARMING, SessionState.MEASURING, SessionState.DRAINING, SessionState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Bench:
    """What tests of leases do, each call its own transaction."""

    database: Database

    async def register(self, **keywords: Any) -> str:
        """Store the trace and register a manifest; keywords as in ``make_manifest``."""
        manifest = make_manifest(**keywords)
        async with self.database.transaction() as session:
            await EvidenceRepository(session).store_trace(make_trace())
            await ExperimentRepository(session).add(manifest)
        return manifest.digest

    @asynccontextmanager
    async def leases(self) -> AsyncGenerator[LeaseRepository]:
        """One transaction of a worker, about its block."""
        async with self.database.transaction() as session:
            yield LeaseRepository(session)

    @asynccontextmanager
    async def runs(self) -> AsyncGenerator[SessionRepository]:
        """One transaction of a worker, about its sessions and runs."""
        async with self.database.transaction() as session:
            yield SessionRepository(session)

    async def claim(self, worker: str = "worker-1") -> ClaimedBlock:
        """A block, which must be there; ``worker``'s host has places enough."""
        async with self.database.transaction() as session:
            block = await claim_block(session, worker)
        assert block is not None
        return block

    async def read(self, digest: str) -> ExperimentRead:
        async with self.database.reader() as session:
            return read(await ExperimentRepository(session).facts(digest))

    async def start_run(self, block: ClaimedBlock, arm: str = "target-only", position: int = 0) -> tuple[UUID, UUID]:
        """A session in MEASURING with an open run: their ids."""
        async with self.runs() as blocks:
            session_id = await blocks.start_session(block.id, block.fence, arm, position)
            for state in PATH[:2]:
                await blocks.move_session(session_id, block.fence, state)
            return session_id, await blocks.start_run(session_id, block.fence, "tasks", "low")

    async def finish_run(self, block: ClaimedBlock, session_id: UUID, run_id: UUID) -> None:
        """End the run and its session well."""
        async with self.runs() as blocks:
            await blocks.finish_run(run_id, block.fence, RunState.SUCCEEDED, failure=None, counters=None, summary=None)
            for state in PATH[2:]:
                await blocks.move_session(session_id, block.fence, state)

    async def finish(self, block: ClaimedBlock, state: BlockState, failure: Failure | None = None) -> None:
        async with self.leases() as leases:
            await leases.finish(block.id, block.fence, state, failure)

    async def expire(self, block: ClaimedBlock) -> int:
        """Let a lease run out by the database's own clock and reap it."""
        with psycopg.connect(libpq_url(self.database.url), autocommit=True) as connection:
            connection.execute(
                "UPDATE block SET lease_expires_at = now() - interval '1 second' WHERE id = %s", [block.id]
            )
        async with self.leases() as leases:
            return await leases.reap_expired()


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)
