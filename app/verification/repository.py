"""The answers of a block that is still being conducted: what its worker compares before the block is over."""

from collections import defaultdict
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, RunRow, SessionRow, VerificationRow
from app.db.repository import counts
from app.domain.evidence import RunEvidence, SessionEvidence
from app.domain.lifecycle import RunState
from app.domain.observation import RequestObservation
from app.evidence.repository import EvidenceRepository
from app.evidence.rows import by_run
from app.runs.packing import unpack_verification


class VerificationRepository:
    """Reads of one leased block, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def sessions(self, block_id: UUID) -> tuple[SessionEvidence, ...]:
        """The measuring sessions that count now, in order, with what they were asked beside their runs."""
        query = (
            select(SessionRow.arm, SessionRow.position, SessionRow.state, BlockRow.index, VerificationRow.document)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .outerjoin(VerificationRow, VerificationRow.session_id == SessionRow.id)
            .where(BlockRow.id == block_id, counts(), SessionRow.diagnosing.is_(False))
            .order_by(SessionRow.started_at)
        )
        rows = (await self._session.execute(query)).all()
        return tuple(
            SessionEvidence(
                block=block,
                arm=arm,
                position=position,
                state=state,
                verification=unpack_verification(document) if document else None,
            )
            for arm, position, state, block, document in rows
        )

    async def runs(self, block_id: UUID) -> tuple[RunEvidence, ...]:
        """The runs that count now, with what was seen in them and nothing else."""
        query = (
            select(RunRow, SessionRow.arm, BlockRow.index, BlockRow.experiment_id)
            .join(SessionRow, SessionRow.id == RunRow.session_id)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .where(BlockRow.id == block_id, counts(), SessionRow.diagnosing.is_(False))
            .where(RunRow.state == RunState.SUCCEEDED)
            .order_by(func.coalesce(RunRow.finished_at, RunRow.started_at))
        )
        rows = (await self._session.execute(query)).all()
        seen = await self._observations(rows[0].experiment_id, [run.id for run, *_ in rows]) if rows else {}
        return tuple(
            RunEvidence(
                block=block,
                arm=arm,
                workload=run.workload,
                load=run.load,
                state=RunState.SUCCEEDED,
                observations=tuple(seen.get(run.id, ())),
            )
            for run, arm, block, _ in rows
        )

    async def _observations(self, experiment_id: str, run_ids: list[UUID]) -> dict[UUID, list[RequestObservation]]:
        seen: dict[UUID, list[RequestObservation]] = defaultdict(list)
        async for rows in EvidenceRepository(self._session).read_rows(experiment_id, run_ids):
            for run_id, portion in by_run(rows):
                seen[run_id] += portion
        return seen
