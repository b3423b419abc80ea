"""Writes of one claimed block into Postgres: each fenced, each its own transaction.

Nothing is written while a replay runs, so that the database cannot disturb the timing. A database that is away
is waited for, no longer than the lease allows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from app.artifacts.store import ArtifactStore
from app.db.session import Database
from app.domain.control import Control
from app.domain.evidence import CounterDeltas, Failure
from app.domain.lifecycle import RunState, SessionState
from app.domain.observation import RequestObservation
from app.domain.run_summary import summarise
from app.domain.series import Series
from app.domain.startup import StartupWarning
from app.domain.verified import VerificationRecord
from app.evidence.repository import EvidenceRepository
from app.leases.repository import ClaimedBlock
from app.runs.facts import SessionFacts
from app.runs.repository import SessionRepository

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorder:
    """The pen of one lease holder; a stale fence raises ``Fenced``."""

    database: Database
    block: ClaimedBlock
    artifacts: ArtifactStore
    patience_s: float

    async def start_session(self, arm: str, position: int, *, diagnosing: bool = False) -> UUID:
        """A new session in state STARTING; one that is ``diagnosing`` measures nothing."""
        block = self.block
        return await self._write(
            lambda runs: runs.start_session(block.id, block.fence, arm, position, diagnosing=diagnosing)
        )

    async def move_session(self, session_id: UUID, state: SessionState, failure: Failure | None = None) -> None:
        """One legal move of the session's state."""
        await self._write(lambda runs: runs.move_session(session_id, self.block.fence, state, failure))

    async def describe_session(self, session_id: UUID, facts: SessionFacts) -> None:
        """How the server started and what it resolved."""
        await self._write(lambda runs: runs.describe_session(session_id, self.block.fence, facts))

    async def record_warnings(self, session_id: UUID, warnings: tuple[StartupWarning, ...]) -> None:
        """The known warnings of the whole log, when the session is over."""
        await self._write(lambda runs: runs.record_warnings(session_id, self.block.fence, warnings))

    async def record_verification(self, session_id: UUID, record: VerificationRecord) -> None:
        """What the server was asked beside its runs; a later record replaces an earlier one."""
        await self._write(lambda runs: runs.record_verification(session_id, self.block.fence, record))

    async def archive(
        self, kind: str, source: Path, *, session_id: UUID | None = None, run_id: UUID | None = None
    ) -> str:
        """Store a file by content address and reference it; returns its sha256."""
        artifact = await asyncio.to_thread(self.artifacts.put, source)
        facts = (kind, artifact.sha256, artifact.path, session_id, run_id, artifact.size_bytes)

        async def reference(session: AsyncSession) -> None:
            await EvidenceRepository(session).record_artifact(*facts)

        await self.database.persist(reference, patience_s=self.patience_s)
        return artifact.sha256

    async def start_run(self, session_id: UUID, workload: str, load: str, attempt: int) -> UUID:
        """A new run in state MEASURING."""
        return await self._write(lambda runs: runs.start_run(session_id, self.block.fence, workload, load, attempt))

    async def record_replay(
        self, run_id: UUID, observations: tuple[RequestObservation, ...], series: tuple[Series, ...]
    ) -> None:
        """The raw cases of a run and what was sampled meanwhile, kept even where the run then fails."""

        async def record(session: AsyncSession) -> None:
            evidence = EvidenceRepository(session)
            await evidence.record_observations(run_id, self.block.fence, observations)
            await evidence.record_series(run_id, self.block.fence, series)

        await self.database.persist(record, patience_s=self.patience_s)

    async def finish_run(
        self,
        run_id: UUID,
        state: RunState,
        *,
        failure: Failure | None = None,
        counters: CounterDeltas | None = None,
        observations: tuple[RequestObservation, ...] = (),
        controls: tuple[Control, ...] = (),
        unobservable: Mapping[str, str] | None = None,
        scorer: str | None = None,
        scores: Mapping[str, float] | None = None,
    ) -> None:
        """The run's last word, with the summary and the controls that the live page shows."""
        summary = summarise(observations) if observations else None

        def finish(runs: SessionRepository) -> Awaitable[None]:
            fence = self.block.fence
            return runs.finish_run(
                run_id,
                fence,
                state,
                failure=failure,
                counters=counters,
                summary=summary,
                controls=controls,
                unobservable=unobservable,
                scorer=scorer,
                scores=scores,
            )

        await self._write(finish)

    async def _write(self, work: Callable[[SessionRepository], Awaitable[T]]) -> T:
        return await self.database.persist(lambda session: work(SessionRepository(session)), patience_s=self.patience_s)
