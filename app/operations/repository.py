"""What the service is doing now, read in one snapshot."""

from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, CapabilityRow, ExperimentRow
from app.domain.lifecycle import BlockState, ExperimentState
from app.domain.retry import ATTEMPTS_MAX
from app.experiments.waiting import SEEN_WITHIN_S
from app.leases.queueing.repository import used_by_owner
from app.operations.schemas import HostRead, LeaseRead, OwnerRead, QueueRead

WAITING = BlockRow.state == BlockState.QUEUED
LEASED = BlockRow.state == BlockState.LEASED


class OperationsRepository:
    """Reads; inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def queues(self) -> list[QueueRead]:
        """By kind of accelerator, those that are not empty."""
        might_start = func.coalesce(BlockRow.not_before, BlockRow.created_at)
        delayed = func.count().filter(WAITING, BlockRow.not_before > func.now())
        waits = func.extract("epoch", func.now() - func.min(might_start).filter(WAITING))
        query = (
            select(BlockRow.accelerator, _number(WAITING), delayed, waits, _number(LEASED))
            .where(BlockRow.state.in_((BlockState.QUEUED, BlockState.LEASED)))
            .group_by(BlockRow.accelerator)
            .order_by(BlockRow.accelerator)
        )
        return [_queue(*row) for row in (await self._session.execute(query)).all()]

    async def leases(self) -> list[LeaseRead]:
        """Blocks under way, the oldest first."""
        query = (
            select(
                BlockRow,
                ExperimentRow.name,
                ExperimentRow.owner,
                func.extract("epoch", func.now() - BlockRow.started_at),
                func.extract("epoch", BlockRow.lease_expires_at - func.now()),
            )
            .join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
            .where(LEASED)
            .order_by(BlockRow.started_at, BlockRow.id)
        )
        return [_lease(*row) for row in (await self._session.execute(query)).all()]

    async def owners(self) -> list[OwnerRead]:
        """Who used accelerators within the window of fair shares, or has blocks waiting or under way."""
        used = used_by_owner()
        seconds: dict[str, float] = {
            owner: float(spent)
            for owner, spent in (await self._session.execute(select(used.c.owner, used.c.seconds))).all()
        }
        now = await self._blocks_by_owner()
        return [
            OwnerRead(owner=owner, accelerator_s=seconds.get(owner, 0.0), queued=queued, leased=leased)
            for owner in sorted(seconds | now, key=lambda name: (-seconds.get(name, 0.0), name))
            for queued, leased in [now.get(owner, (0, 0))]
        ]

    async def hosts(self, busy: Collection[str]) -> list[HostRead]:
        """Each host that has published what it can run; ``busy`` ones hold a lease, so they are not away."""
        silent_s = func.extract("epoch", func.now() - CapabilityRow.seen_at)
        query = select(CapabilityRow.worker, CapabilityRow.seen_at, CapabilityRow.idle_because, silent_s)
        rows = (await self._session.execute(query.order_by(CapabilityRow.worker))).all()
        return [
            HostRead(
                host=host,
                seen_at=seen_at,
                silent_s=max(0.0, float(silent)),
                stale=silent > SEEN_WITHIN_S and host not in busy,
                idle_because=why,
            )
            for host, seen_at, why, silent in rows
        ]

    async def experiments(self) -> Mapping[ExperimentState, int]:
        """How many there are in each state, none included."""
        query = select(ExperimentRow.state, func.count()).group_by(ExperimentRow.state)
        none = dict.fromkeys(ExperimentState, 0)
        rows = (await self._session.execute(query)).all()
        return none | {state: number for state, number in rows}  # noqa: C416  (dict() has no type for rows)

    async def database_bytes(self) -> int:
        """What the whole database takes on its disk."""
        size = func.pg_database_size(func.current_database())
        return (await self._session.scalars(select(size))).one()

    async def _blocks_by_owner(self) -> dict[str, tuple[int, int]]:
        query = (
            select(ExperimentRow.owner, _number(WAITING), _number(LEASED))
            .join(BlockRow, BlockRow.experiment_id == ExperimentRow.digest)
            .where(BlockRow.state.in_((BlockState.QUEUED, BlockState.LEASED)))
            .group_by(ExperimentRow.owner)
        )
        return {owner: (queued, leased) for owner, queued, leased in (await self._session.execute(query)).all()}


def _number(which: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(which)


def _queue(kind: str, queued: int, delayed: int, waits_s: float | None, leased: int) -> QueueRead:
    oldest = None if waits_s is None else max(0.0, float(waits_s))
    return QueueRead(accelerator=kind, queued=queued, delayed=delayed, oldest_wait_s=oldest, leased=leased)


def _lease(block: BlockRow, name: str, owner: str, running_s: float | None, left_s: float | None) -> LeaseRead:
    return LeaseRead(
        experiment_id=block.experiment_id,
        experiment_name=name,
        block=block.index,
        owner=owner,
        worker=block.lease_owner or "",
        accelerator=block.accelerator,
        accelerators=block.accelerators,
        attempt=block.attempt,
        attempts_max=ATTEMPTS_MAX,
        running_s=float(running_s or 0),
        expires_in_s=float(left_s or 0),
        cancel_requested=block.cancel_requested,
    )
