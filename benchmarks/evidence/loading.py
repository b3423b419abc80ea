"""Fill a store of its own through the product's own writers: registered, claimed, recorded, finished."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from alembic import command

from app import embedded
from app.db.session import Database
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.run_summary import summarise
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import ClaimedBlock, LeaseRepository
from app.runs.repository import SessionRepository
from benchmarks.evidence.making import Key, MadeRun, make_runs, make_workload, manifest_of
from tests.conftest import alembic_config
from tests.factories_leases import claim_block


@dataclass(slots=True)
class Spent:
    """Seconds in ``COPY`` of observations, from objects to the transaction that holds them, and in everything."""

    copying_s: float = 0
    loading_s: float = 0
    observations: int = 0


@dataclass
class Store:
    """A Postgres that holds nothing but what is loaded here."""

    home: Path
    spent: Spent = field(default_factory=Spent)
    experiments: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.url = embedded.start_postgres(self.home)
        command.upgrade(alembic_config(self.url), "head")
        self.database = Database(self.url)
        self.trace = make_workload()
        self.runs: Mapping[Key, MadeRun] = make_runs(self.trace, manifest_of(self.trace, 0))

    async def close(self) -> None:
        await self.database.dispose()
        embedded.stop_postgres(self.home)

    async def load(self, count: int) -> None:
        """Add experiments until there are ``count``."""
        async with self.database.transaction() as session:
            await EvidenceRepository(session).store_trace(self.trace)
        while len(self.experiments) < count:
            started = time.monotonic()
            manifest = await self.register()
            for _ in range(manifest.blocks):
                await self._block()
            self.spent.loading_s += time.monotonic() - started

    async def register(self) -> Manifest:
        """The next experiment, without evidence yet."""
        manifest = manifest_of(self.trace, len(self.experiments))
        async with self.database.transaction() as session:
            await ExperimentRepository(session).add(manifest)
        self.experiments.append(manifest.digest)
        return manifest

    async def _block(self) -> None:
        async with self.database.transaction() as session:
            block = await claim_block(session, "bench-1")
            if block is None:
                raise RuntimeError("no block waits")
            sessions = SessionRepository(session)
            for position, arm in enumerate(block.manifest.arms):
                session_id = await sessions.start_session(block.id, block.fence, arm.name, position)
                for state in (SessionState.WARMING, SessionState.MEASURING):
                    await sessions.move_session(session_id, block.fence, state)
                for load in block.manifest.loads:
                    run_id = await sessions.start_run(session_id, block.fence, "tasks", load.name, 1)
                    made = self.runs[block.index, arm.name, load.name]
                    await self._record(EvidenceRepository(session), run_id, block, made)
                    await sessions.finish_run(
                        run_id,
                        block.fence,
                        RunState.SUCCEEDED,
                        failure=None,
                        counters=made.counters,
                        summary=summarise(made.observations[:100]),
                    )
                for state in (SessionState.DRAINING, SessionState.SUCCEEDED):
                    await sessions.move_session(session_id, block.fence, state)
            await LeaseRepository(session).finish(block.id, block.fence, BlockState.SUCCEEDED, None)

    async def _record(self, evidence: EvidenceRepository, run_id: UUID, block: ClaimedBlock, made: MadeRun) -> None:
        started = time.monotonic()
        await evidence.record_observations(run_id, block.fence, made.observations)
        self.spent.copying_s += time.monotonic() - started
        self.spent.observations += len(made.observations)
        await evidence.record_series(run_id, block.fence, made.series)
