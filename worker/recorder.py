"""Writes of one claimed block into Postgres: each fenced, each its own transaction.

Nothing is written while a replay runs, so that the database cannot disturb the timing.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from app.db.session import Database
from app.domain.evidence import CounterDeltas, Failure, Gauges
from app.domain.lifecycle import RunState, SessionState
from app.domain.observation import RequestObservation
from app.domain.run_summary import summarise
from app.domain.startup import StartupWarning
from app.evidence.repository import EvidenceRepository
from app.runs.facts import SessionFacts
from app.runs.repository import BlockRepository, ClaimedBlock
from worker.artifacts import store


@dataclass(frozen=True, slots=True)
class Recorder:
    """The pen of one lease holder; a stale fence raises ``Fenced``."""

    database: Database
    block: ClaimedBlock
    artifact_root: Path

    async def start_session(self, arm: str, position: int) -> UUID:
        """A new session in state STARTING."""
        async with self.database.transaction() as session:
            return await BlockRepository(session).start_session(self.block.id, self.block.fence, arm, position)

    async def move_session(self, session_id: UUID, state: SessionState, failure: Failure | None = None) -> None:
        """One legal move of the session's state."""
        async with self.database.transaction() as session:
            await BlockRepository(session).move_session(session_id, self.block.fence, state, failure)

    async def describe_session(self, session_id: UUID, facts: SessionFacts) -> None:
        """How the server started and what it resolved."""
        async with self.database.transaction() as session:
            await BlockRepository(session).describe_session(session_id, self.block.fence, facts)

    async def record_warnings(self, session_id: UUID, warnings: tuple[StartupWarning, ...]) -> None:
        """The known warnings of the whole log, when the session is over."""
        async with self.database.transaction() as session:
            await BlockRepository(session).record_warnings(session_id, self.block.fence, warnings)

    async def archive(
        self, kind: str, source: Path, *, session_id: UUID | None = None, run_id: UUID | None = None
    ) -> str:
        """Store a file by content address and reference it; returns its sha256."""
        artifact = store(self.artifact_root, source)
        async with self.database.transaction() as session:
            await EvidenceRepository(session).record_artifact(
                kind, artifact.sha256, artifact.path, session_id, run_id, artifact.size_bytes
            )
        return artifact.sha256

    async def start_run(self, session_id: UUID, workload: str, load: str, attempt: int) -> UUID:
        """A new run in state MEASURING."""
        async with self.database.transaction() as session:
            return await BlockRepository(session).start_run(session_id, self.block.fence, workload, load, attempt)

    async def record_replay(self, run_id: UUID, observations: tuple[RequestObservation, ...], gauges: Gauges) -> None:
        """The raw cases and the scraped series of a run, kept even where the run then fails."""
        async with self.database.transaction() as session:
            evidence = EvidenceRepository(session)
            await evidence.record_observations(run_id, self.block.fence, observations)
            for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
                await evidence.record_series(run_id, f"vllm:{name}", {}, gauges.at_ns, getattr(gauges, name))

    async def finish_run(
        self,
        run_id: UUID,
        state: RunState,
        *,
        failure: Failure | None = None,
        counters: CounterDeltas | None = None,
        observations: tuple[RequestObservation, ...] = (),
    ) -> None:
        """The run's last word, with the summary that the live page shows."""
        async with self.database.transaction() as session:
            await BlockRepository(session).finish_run(
                run_id,
                self.block.fence,
                state,
                failure=failure,
                counters=counters,
                summary=summarise(observations) if observations else None,
            )
