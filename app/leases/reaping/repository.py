"""One reaper at a time, and what it took back."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow
from app.domain.lifecycle import BlockState
from app.leases.repository import LeaseRepository

REAPER = 8401
"""The advisory lock of whoever reaps; held to the end of the transaction."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """A block whose lease had expired, and what became of it."""

    experiment_id: str
    block: int
    worker: str
    accelerator: str
    state: BlockState


class ReapingRepository:
    """Takes back expired leases, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def reap(self) -> list[Reaped]:
        """What this call took back; nothing while another process reaps, or holds a block."""
        if not await self._session.scalar(select(func.pg_try_advisory_xact_lock(REAPER))):
            return []
        worker, expires = BlockRow.lease_owner, func.coalesce(BlockRow.lease_expires_at, func.now())
        leased = BlockRow.state == BlockState.LEASED
        expired = select(BlockRow.id, worker).where(leased, expires <= func.now())
        workers = {block_id: owner or "" for block_id, owner in (await self._session.execute(expired)).all()}
        if not workers or not await LeaseRepository(self._session).reap_expired():
            return []
        columns = (BlockRow.id, BlockRow.experiment_id, BlockRow.index, BlockRow.accelerator, BlockRow.state)
        after = (
            select(*columns).where(BlockRow.id.in_(workers), ~leased).order_by(BlockRow.experiment_id, BlockRow.index)
        )
        ordered = after.order_by(BlockRow.experiment_id, BlockRow.index)
        return [
            Reaped(experiment_id, block, workers[block_id], accelerator, state)
            for block_id, experiment_id, block, accelerator, state in (await self._session.execute(ordered)).all()
        ]
