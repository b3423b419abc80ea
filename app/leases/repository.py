"""Blocks as leases (method B3): one winner per claim, and a fence that stops whoever lost its lease.

The database's clock decides what has expired. Locks are taken blocks first, then accelerators, experiments last, and
nothing follows an experiment in its transaction; a claim waits for no block, and of hosts only for its own.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.accelerators.repository import AcceleratorRepository
from app.db.models import BlockRow, ExperimentRow, RunRow, SessionRow
from app.db.repository import Fenced, failure_document, hold, settle, touch
from app.domain.errors import IllegalTransition
from app.domain.evidence import Failure
from app.domain.lifecycle import (
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    RUN_MOVES,
    SESSION_MOVES,
    BlockState,
    ExperimentState,
    RunState,
    SessionState,
    check_move,
    is_terminal,
    sources_of,
)
from app.domain.manifest import Manifest
from app.domain.retry import may_retry, retry_delay_s
from app.domain.vocabulary import FailureClass
from app.leases.queueing.repository import next_block

__all__ = ["Claimant", "ClaimedBlock", "Fenced", "Heartbeat", "LeaseRepository", "host_of"]

CLAIMS = 8400
"""Namespace of the advisory locks by which the claims of one host follow each other."""
OPEN_SESSIONS = tuple(s for s in SessionState if not is_terminal(SESSION_MOVES, s))
OPEN_RUNS = tuple(s for s in RunState if not is_terminal(RUN_MOVES, s))


def host_of(worker: str) -> str:
    """The host of a worker ``host:pid``."""
    return worker.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who asks for a block: ``worker`` is ``host:pid``; ``idle`` names accelerators that nobody has locked there."""

    worker: str
    kind: str
    idle: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedBlock:
    """A block that this worker now holds until its lease expires, with the accelerators it may use."""

    id: UUID
    experiment_id: str
    index: int
    fence: int
    attempt: int
    manifest: Manifest
    host: str
    accelerators: tuple[str, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """``host/name`` of each accelerator."""
        return tuple(f"{self.host}/{name}" for name in self.accelerators)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Whether the lease still stands, and whether the user asked to stop."""

    held: bool
    cancel_requested: bool


class LeaseRepository:
    """Claims, keeps and ends leases, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._accelerators = AcceleratorRepository(session)

    async def claim(self, claimant: Claimant, lease_s: float) -> ClaimedBlock | None:
        """Lease the next queued block of the claimant's kind and accelerators of its host for it, all or none."""
        host = host_of(claimant.worker)
        await self._session.execute(select(func.pg_advisory_xact_lock(CLAIMS, func.hashtext(host))))
        places = await self._accelerators.places(host, claimant.kind, claimant.idle)
        if not places.free:
            return None
        block = await self._session.scalar(next_block(claimant.kind, places))
        if block is None or block.accelerator_count > len(places.free):  # this host is kept free for it
            return None
        names = _chosen(host, places.free, block)
        await self._accelerators.lease(host, names, block.id)
        claimed = await self._lease(block, claimant.worker, lease_s, [f"{host}/{name}" for name in names])
        await self._start_experiment(claimed.experiment_id)
        return await self._claimed(claimed, host, names)

    async def queued(self, kind: str) -> int:
        """How many blocks of ``kind`` may be claimed now."""
        may = BlockRow.state == BlockState.QUEUED, func.coalesce(BlockRow.not_before, func.now()) <= func.now()
        query = select(func.count()).select_from(BlockRow).where(BlockRow.accelerator == kind, *may)
        return await self._session.scalar(query) or 0

    async def heartbeat(self, block_id: UUID, fence: int, lease_s: float) -> Heartbeat:
        """Extend the lease if it still stands; never raises for a lost one."""
        cancel_requested = await self._session.scalar(
            update(BlockRow)
            .where(BlockRow.id == block_id, BlockRow.fence == fence, BlockRow.state == BlockState.LEASED)
            .values(lease_expires_at=func.now() + timedelta(seconds=lease_s))
            .returning(BlockRow.cancel_requested)
        )
        return Heartbeat(held=cancel_requested is not None, cancel_requested=bool(cancel_requested))

    async def finish(self, block_id: UUID, fence: int, state: BlockState, failure: Failure | None) -> None:
        """End the block; the last one also ends its experiment. Raises ``Fenced`` or ``IllegalTransition``."""
        experiment_id = await hold(self._session, BlockRow.id == block_id, fence)
        check_move(BLOCK_MOVES, BlockState.LEASED, state)
        if not is_terminal(BLOCK_MOVES, state):
            raise IllegalTransition.of("state", f"a worker cannot finish a block as {state}", "name a terminal state")
        await self._end(block_id, state, failure)
        await settle(self._session, experiment_id)

    async def note(self, block_id: UUID, fence: int, failure: Failure) -> None:
        """Write what went wrong after the block had ended well beside it; its state stays."""
        noted = (
            update(BlockRow)
            .where(BlockRow.id == block_id, BlockRow.fence == fence, BlockRow.state == BlockState.SUCCEEDED)
            .values(failure=failure_document(failure))
            .returning(BlockRow.experiment_id)
        )
        if (experiment_id := await self._session.scalar(noted)) is not None:
            await touch(self._session, experiment_id)

    async def give_back(self, block_id: UUID, fence: int, failure: Failure, *, tried: bool = True) -> None:
        """Stop before the end: queued again if its failure's class allows another attempt, else failed.

        What is not ``tried`` (a worker that leaves in order) costs no attempt. Raises ``Fenced``.
        """
        experiment_id = await hold(self._session, BlockRow.id == block_id, fence)
        block = (await self._session.scalars(select(BlockRow).where(BlockRow.id == block_id))).one()
        await self._interrupt(block, failure, tried=tried, delay_s=retry_delay_s(block.attempt) if tried else 0)
        await settle(self._session, experiment_id)

    async def reap_expired(self) -> int:
        """Take back every expired lease: queue the block again, or fail it after its last attempt."""
        expired = select(BlockRow).where(
            BlockRow.state == BlockState.LEASED, func.coalesce(BlockRow.lease_expires_at, func.now()) <= func.now()
        )
        blocks = (await self._session.scalars(expired.order_by(BlockRow.id).with_for_update(skip_locked=True))).all()
        await self._accelerators.hold([block.id for block in blocks])
        for block in blocks:
            await self._interrupt(block, _lost(f"the lease of {block.lease_owner} expired"), tried=True)
        for experiment_id in sorted({block.experiment_id for block in blocks}):
            await settle(self._session, experiment_id)
        return len(blocks)

    async def release(self, host: str) -> int:
        """Queue again what workers of ``host`` hold, as if never tried; only for a host whose workers have stopped."""
        leased = select(BlockRow).where(
            BlockRow.state == BlockState.LEASED, func.split_part(BlockRow.lease_owner, ":", 1) == host
        )
        blocks = (await self._session.scalars(leased.order_by(BlockRow.id).with_for_update())).all()
        await self._accelerators.hold([block.id for block in blocks])
        for block in blocks:
            await self._interrupt(block, _lost(f"{block.lease_owner} was stopped"), tried=False)
        for experiment_id in sorted({block.experiment_id for block in blocks}):
            await settle(self._session, experiment_id)
        return len(blocks)

    async def _lease(self, block: BlockRow, worker: str, lease_s: float, addresses: list[str]) -> BlockRow:
        leased = (
            update(BlockRow)
            .where(BlockRow.id == block.id)
            .values(
                state=BlockState.LEASED,
                fence=BlockRow.fence + 1,
                attempt=BlockRow.attempt + 1,
                lease_owner=worker,
                lease_expires_at=func.now() + timedelta(seconds=lease_s),
                accelerators=addresses,
                started_at=func.now(),
            )
            .returning(BlockRow)
        )
        return (await self._session.scalars(leased, execution_options={"populate_existing": True})).one()

    async def _claimed(self, block: BlockRow, host: str, names: tuple[str, ...]) -> ClaimedBlock:
        document = await self._session.scalar(
            select(ExperimentRow.manifest).where(ExperimentRow.digest == block.experiment_id)
        )
        return ClaimedBlock(
            id=block.id,
            experiment_id=block.experiment_id,
            index=block.index,
            fence=block.fence,
            attempt=block.attempt,
            manifest=Manifest.model_validate(document),
            host=host,
            accelerators=names,
        )

    async def _start_experiment(self, experiment_id: str) -> None:
        await self._session.execute(
            update(ExperimentRow)
            .where(ExperimentRow.digest == experiment_id)
            .where(ExperimentRow.state.in_(sources_of(EXPERIMENT_MOVES, ExperimentState.RUNNING)))
            .values(state=ExperimentState.RUNNING)
        )
        await touch(self._session, experiment_id)

    async def _interrupt(self, block: BlockRow, failure: Failure, *, tried: bool, delay_s: float = 0) -> None:
        """LEASED → LOST → QUEUED, FAILED or CANCELED, in one step of the caller's transaction."""
        check_move(BLOCK_MOVES, block.state, BlockState.LOST)
        if block.cancel_requested:
            canceled = Failure(failure_class=FailureClass.CANCELED, message="canceled on request")
            await self._end(block.id, BlockState.CANCELED, canceled)
        elif tried and not may_retry(failure.failure_class, block.attempt):
            await self._close_open(block.id, SessionState.LOST, failure)
            await self._end(block.id, BlockState.FAILED, failure)
        else:
            await self._close_open(block.id, SessionState.LOST, failure)
            await self._queue_again(block, delay_s, tried=tried)

    async def _queue_again(self, block: BlockRow, delay_s: float, *, tried: bool) -> None:
        await self._session.execute(
            update(BlockRow)
            .where(BlockRow.id == block.id)
            .values(
                state=BlockState.QUEUED,
                attempt=BlockRow.attempt - int(not tried),
                lease_owner=None,
                lease_expires_at=None,
                not_before=func.now() + timedelta(seconds=delay_s),
            )
        )
        await self._accelerators.free(block.id)

    async def _end(self, block_id: UUID, state: BlockState, failure: Failure | None) -> None:
        # What a block that ended well left open was not measured to its end.
        open_ones = SessionState.LOST if state is BlockState.SUCCEEDED else SessionState(state)
        await self._close_open(block_id, open_ones, failure)
        await self._session.execute(
            update(BlockRow)
            .where(BlockRow.id == block_id)
            .values(state=state, failure=failure_document(failure), lease_expires_at=None, finished_at=func.now())
        )
        await self._accelerators.free(block_id)

    async def _close_open(self, block_id: UUID, state: SessionState, failure: Failure | None) -> None:
        """End what is still open in the block; a run is what its session is."""
        ended = {"failure": failure_document(failure), "finished_at": func.now()}
        of_block = select(SessionRow.id).where(SessionRow.block_id == block_id)
        await self._session.execute(
            update(RunRow)
            .where(RunRow.session_id.in_(of_block), RunRow.state.in_(OPEN_RUNS))
            .values(state=RunState(state), **ended)
        )
        await self._session.execute(
            update(SessionRow)
            .where(SessionRow.block_id == block_id, SessionRow.state.in_(OPEN_SESSIONS))
            .values(state=state, **ended)
        )


def _chosen(host: str, free: tuple[str, ...], block: BlockRow) -> tuple[str, ...]:
    """Those that the block had before come first, so that what it measured there may count on."""
    before = set(block.accelerators)
    return tuple(sorted(free, key=lambda name: (f"{host}/{name}" not in before, name))[: block.accelerator_count])


def _lost(message: str) -> Failure:
    return Failure(failure_class=FailureClass.INFRA, message=message)
