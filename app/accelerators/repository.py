"""Accelerators in Postgres: published by their host, leased with a block, quarantined until a person says otherwise.

Everyone locks them by host and name, so that their writers can wait but never deadlock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import AcceleratorRow, BlockRow, CapabilityRow
from app.domain.errors import NotFound
from app.domain.lifecycle import ACCELERATOR_MOVES, AcceleratorState, sources_of


@dataclass(frozen=True, slots=True)
class Places:
    """Accelerators of one kind and host: the names of the free ones, and how many are fit for use at all."""

    free: tuple[str, ...]
    usable: int


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One accelerator as the operations page shows it; ``experiment`` and ``block`` are those it works for."""

    host: str
    name: str
    kind: str
    state: AcceleratorState
    reason: str | None
    since: datetime
    seen_at: datetime
    experiment: str | None
    block: int | None


class AcceleratorRepository:
    """Reads and moves accelerators, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def publish(self, host: str, kinds: Mapping[str, str]) -> None:
        """Say which accelerators (name → kind) ``host`` has now; states of known ones stay as they are."""
        await self._lock(AcceleratorRow.host == host)
        for name, kind in sorted(kinds.items()):
            row = insert(AcceleratorRow).values(host=host, name=name, kind=kind, state=AcceleratorState.FREE)
            seen = {"kind": kind, "seen_at": func.now()}
            await self._session.execute(row.on_conflict_do_update(index_elements=["host", "name"], set_=seen))
        gone = AcceleratorRow.name.not_in(kinds), AcceleratorRow.state == AcceleratorState.FREE
        await self._session.execute(delete(AcceleratorRow).where(AcceleratorRow.host == host, *gone))

    async def seen(self, host: str) -> None:
        """Say that ``host`` lives; while its only worker is busy, nothing else does."""
        await self._lock(AcceleratorRow.host == host)
        await self._session.execute(
            update(AcceleratorRow).where(AcceleratorRow.host == host).values(seen_at=func.now())
        )
        await self._session.execute(
            update(CapabilityRow).where(CapabilityRow.worker == host).values(seen_at=func.now())
        )

    async def places(self, host: str, kind: str, idle: Collection[str]) -> Places:
        """Counts; free are those that nobody leases and that the host itself sees ``idle``."""
        usable = AcceleratorRow.state != AcceleratorState.QUARANTINED
        of_host = AcceleratorRow.host == host, AcceleratorRow.kind == kind, usable
        query = select(AcceleratorRow.name, AcceleratorRow.state).where(*of_host).order_by(AcceleratorRow.name)
        rows = (await self._session.execute(query.with_for_update())).all()
        free = [name for name, state in rows if state is AcceleratorState.FREE and name in idle]
        return Places(free=tuple(free), usable=len(rows))

    async def lease(self, host: str, names: Collection[str], block_id: UUID) -> None:
        """Give these accelerators to a block."""
        await self._move(_these(host, names), AcceleratorState.LEASED, block_id=block_id)

    async def hold(self, blocks: Collection[UUID]) -> None:
        """Lock what these blocks have, before one after the other is taken back."""
        await self._lock(AcceleratorRow.block_id.in_(blocks))

    async def free(self, block_id: UUID) -> None:
        """Take back what a block had; what was quarantined meanwhile stays so."""
        held = AcceleratorRow.block_id == block_id, AcceleratorRow.state == AcceleratorState.LEASED
        await self._move(held, AcceleratorState.FREE)

    async def quarantine(self, host: str, names: Collection[str], reason: str) -> None:
        """Let nothing run on these any more."""
        await self._move(_these(host, names), AcceleratorState.QUARANTINED, reason=reason)

    async def release(self, host: str, name: str) -> None:
        """Use a quarantined accelerator again; raises ``NotFound`` where there is none of that name in quarantine."""
        place = (*_these(host, [name]), AcceleratorRow.state == AcceleratorState.QUARANTINED)
        if not await self._move(place, AcceleratorState.FREE):
            message = f"no accelerator {host}/{name} is in quarantine"
            raise NotFound.of("accelerator", message, "`verdraft accelerator list` shows those that are")

    async def every(self) -> list[AcceleratorFacts]:
        """All that were ever published and are not gone, by host and name."""
        query = (
            select(AcceleratorRow, BlockRow.experiment_id, BlockRow.index)
            .outerjoin(BlockRow, BlockRow.id == AcceleratorRow.block_id)
            .order_by(AcceleratorRow.host, AcceleratorRow.name)
        )
        return [_facts(row, experiment, index) for row, experiment, index in (await self._session.execute(query)).all()]

    async def _move(
        self,
        which: Sequence[ColumnElement[bool]],
        state: AcceleratorState,
        *,
        block_id: UUID | None = None,
        reason: str | None = None,
    ) -> int:
        legal = AcceleratorRow.state.in_(sources_of(ACCELERATOR_MOVES, state))
        await self._lock(*which)
        values = {"state": state, "block_id": block_id, "reason": reason, "since": func.now()}
        moved = update(AcceleratorRow).where(*which, legal).values(values).returning(AcceleratorRow.name)
        return len((await self._session.scalars(moved)).all())

    async def _lock(self, *which: ColumnElement[bool]) -> None:
        rows = select(AcceleratorRow.name).where(*which).order_by(AcceleratorRow.host, AcceleratorRow.name)
        await self._session.execute(rows.with_for_update())


def _these(host: str, names: Collection[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return AcceleratorRow.host == host, AcceleratorRow.name.in_(names)


def _facts(row: AcceleratorRow, experiment: str | None, block: int | None) -> AcceleratorFacts:
    return AcceleratorFacts(
        host=row.host,
        name=row.name,
        kind=row.kind,
        state=row.state,
        reason=row.reason,
        since=row.since,
        seen_at=row.seen_at,
        experiment=experiment,
        block=block,
    )
