"""Blocks as leases (method B3): one winner per claim, and a fence that stops whoever lost its lease.

Every write names the fence it was claimed with and locks the block, so it cannot interleave with the
reaper; the database's clock decides what has expired. Locks are taken block first, experiment last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.base import Json
from app.db.models import BlockRow, ExperimentRow, RunRow, SessionRow
from app.db.repository import Fenced, failure_document, hold, hold_run, hold_session, settle, storable, touch
from app.domain.errors import IllegalTransition
from app.domain.evidence import CounterDeltas, Failure
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
from app.domain.run_summary import RunSummary
from app.domain.startup import StartupWarning
from app.domain.vocabulary import FailureClass
from app.runs.facts import SessionFacts

__all__ = ["BlockRepository", "ClaimedBlock", "Fenced", "Heartbeat"]

ATTEMPTS_MAX = 3
OPEN_SESSIONS = tuple(s for s in SessionState if not is_terminal(SESSION_MOVES, s))
OPEN_RUNS = tuple(s for s in RunState if not is_terminal(RUN_MOVES, s))


@dataclass(frozen=True, slots=True)
class ClaimedBlock:
    """A block that this worker now holds until its lease expires."""

    id: UUID
    experiment_id: str
    index: int
    fence: int
    attempt: int
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Whether the lease still stands, and whether the user asked to stop."""

    held: bool
    cancel_requested: bool


class BlockRepository:
    """What a worker does to blocks, sessions and runs, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def claim(self, worker: str, lease_s: int = 60) -> ClaimedBlock | None:
        """Lease the oldest queued block, or ``None``. One statement decides, so there is one winner."""
        order = (BlockRow.created_at, BlockRow.experiment_id, BlockRow.index)
        oldest = select(BlockRow.id).where(BlockRow.state == BlockState.QUEUED).order_by(*order).limit(1)
        claimed = await self._session.scalar(
            update(BlockRow)
            .where(BlockRow.id == oldest.with_for_update(skip_locked=True).scalar_subquery())
            .values(
                state=BlockState.LEASED,
                fence=BlockRow.fence + 1,
                attempt=BlockRow.attempt + 1,
                lease_owner=worker,
                lease_expires_at=func.now() + timedelta(seconds=lease_s),
                started_at=func.now(),
            )
            .returning(BlockRow)
        )
        if claimed is None:
            return None
        await self._start_experiment(claimed.experiment_id)
        document = await self._session.scalar(
            select(ExperimentRow.manifest).where(ExperimentRow.digest == claimed.experiment_id)
        )
        return ClaimedBlock(
            id=claimed.id,
            experiment_id=claimed.experiment_id,
            index=claimed.index,
            fence=claimed.fence,
            attempt=claimed.attempt,
            manifest=Manifest.model_validate(document),
        )

    async def heartbeat(self, block_id: UUID, fence: int, lease_s: int) -> Heartbeat:
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
        await self._end_block(block_id, state, failure)
        await settle(self._session, experiment_id)

    async def reap_expired(self) -> int:
        """Take back every expired lease: queue the block again, or fail it after its last attempt."""
        expired = select(BlockRow).where(
            BlockRow.state == BlockState.LEASED, func.coalesce(BlockRow.lease_expires_at, func.now()) <= func.now()
        )
        blocks = (await self._session.scalars(expired.order_by(BlockRow.id).with_for_update(skip_locked=True))).all()
        for block in blocks:
            await self._take_back(block)
        await self._session.flush()
        for experiment_id in sorted({block.experiment_id for block in blocks}):
            await settle(self._session, experiment_id)
        return len(blocks)

    async def release(self, host: str) -> int:
        """Queue again what workers of ``host`` hold, as if never tried; only for a host whose workers have stopped."""
        leased = select(BlockRow).where(
            BlockRow.state == BlockState.LEASED, func.split_part(BlockRow.lease_owner, ":", 1) == host
        )
        blocks = (await self._session.scalars(leased.order_by(BlockRow.id).with_for_update())).all()
        for block in blocks:
            await self._take_back(block)
            if block.state == BlockState.QUEUED:
                block.attempt -= 1
            await self._session.flush()
            await settle(self._session, block.experiment_id)
        return len(blocks)

    async def start_session(self, block_id: UUID, fence: int, arm: str, position: int) -> UUID:
        """Record that a fresh server of ``arm`` is being started."""
        experiment_id = await hold(self._session, BlockRow.id == block_id, fence)
        attempt = await self._session.scalar(select(BlockRow.attempt).where(BlockRow.id == block_id))
        row = SessionRow(
            block_id=block_id, fence=fence, attempt=attempt, arm=arm, position=position, state=SessionState.STARTING
        )
        self._session.add(row)
        await self._session.flush()
        await touch(self._session, experiment_id)
        return row.id

    async def move_session(
        self, session_id: UUID, fence: int, state: SessionState, failure: Failure | None = None
    ) -> None:
        """Move a session along its state machine; raises ``Fenced`` or ``IllegalTransition``."""
        experiment_id = await hold_session(self._session, session_id, fence)
        ended = is_terminal(SESSION_MOVES, state)
        moved = await self._session.scalar(
            update(SessionRow)
            .where(SessionRow.id == session_id)
            .where(SessionRow.state.in_(sources_of(SESSION_MOVES, state)))
            .values(
                state=state,
                failure=failure_document(failure),
                finished_at=func.clock_timestamp() if ended else None,
            )
            .returning(SessionRow.id)
        )
        if moved is None:
            current = await self._session.scalar(select(SessionRow.state).where(SessionRow.id == session_id))
            raise IllegalTransition.of("state", f"session {current} cannot become {state}", "follow the lifecycle")
        await touch(self._session, experiment_id)

    async def describe_session(self, session_id: UUID, fence: int, facts: SessionFacts) -> None:
        """Record how a session's server started and what it says of itself."""
        experiment_id = await hold_session(self._session, session_id, fence)
        await self._session.execute(
            update(SessionRow)
            .where(SessionRow.id == session_id)
            .values(
                startup_ns=facts.startup_ns,
                argv=list(facts.argv),
                log_sha256=facts.log_sha256,
                resolved_config=storable(facts.resolved_config),
                config_source=facts.config_source,
                memory=storable(facts.memory),
                warnings=_documents(facts.warnings),
                canary=None if facts.canary is None else facts.canary.model_dump(mode="json"),
                flags_left_out=storable(facts.flags_left_out),
            )
        )
        await touch(self._session, experiment_id)

    async def record_warnings(self, session_id: UUID, fence: int, warnings: Sequence[StartupWarning]) -> None:
        """Replace the session's warnings by those of its whole log."""
        experiment_id = await hold_session(self._session, session_id, fence)
        await self._session.execute(
            update(SessionRow).where(SessionRow.id == session_id).values(warnings=_documents(warnings))
        )
        await touch(self._session, experiment_id)

    async def start_run(self, session_id: UUID, fence: int, workload: str, load: str, attempt: int = 1) -> UUID:
        """Record that a replay begins; ``attempt`` counts from 1."""
        experiment_id = await hold_session(self._session, session_id, fence)
        row = RunRow(
            session_id=session_id,
            fence=fence,
            workload=workload,
            load=load,
            attempt=attempt,
            state=RunState.MEASURING,
        )
        self._session.add(row)
        await self._session.flush()
        await touch(self._session, experiment_id)
        return row.id

    async def finish_run(
        self,
        run_id: UUID,
        fence: int,
        state: RunState,
        *,
        failure: Failure | None,
        counters: CounterDeltas | None,
        summary: RunSummary | None,
    ) -> None:
        """End a run with its counters and live summary; raises ``Fenced`` or ``IllegalTransition``."""
        experiment_id = await hold_run(self._session, run_id, fence)
        ended = await self._session.scalar(
            update(RunRow)
            .where(RunRow.id == run_id, RunRow.state.in_(sources_of(RUN_MOVES, state)))
            .values(
                state=state,
                failure=failure_document(failure),
                counters=None if counters is None else counters.model_dump(mode="json"),
                summary=None if summary is None else summary.model_dump(mode="json"),
                finished_at=func.clock_timestamp(),
            )
            .returning(RunRow.id)
        )
        if ended is None:
            raise IllegalTransition.of("state", f"the run is over and cannot become {state}", "start another run")
        await touch(self._session, experiment_id)

    async def _start_experiment(self, experiment_id: str) -> None:
        await self._session.execute(
            update(ExperimentRow)
            .where(ExperimentRow.digest == experiment_id)
            .where(ExperimentRow.state.in_(sources_of(EXPERIMENT_MOVES, ExperimentState.RUNNING)))
            .values(state=ExperimentState.RUNNING)
        )
        await touch(self._session, experiment_id)

    async def _end_block(self, block_id: UUID, state: BlockState, failure: Failure | None) -> None:
        await self._session.execute(
            update(BlockRow)
            .where(BlockRow.id == block_id)
            .values(state=state, failure=failure_document(failure), lease_expires_at=None, finished_at=func.now())
        )

    async def _take_back(self, block: BlockRow) -> None:
        """LEASED → LOST → QUEUED, FAILED or CANCELED, in one step of the caller's transaction."""
        check_move(BLOCK_MOVES, block.state, BlockState.LOST)
        lost = Failure(failure_class=FailureClass.INFRA, message=f"the lease of {block.lease_owner} expired")
        await self._abandon_sessions(block.id, lost)
        if block.cancel_requested:
            await self._end_block(block.id, BlockState.CANCELED, None)
        elif block.attempt >= ATTEMPTS_MAX:
            await self._end_block(block.id, BlockState.FAILED, lost)
        else:
            block.state, block.lease_owner, block.lease_expires_at = BlockState.QUEUED, None, None

    async def _abandon_sessions(self, block_id: UUID, failure: Failure) -> None:
        ended = {"failure": failure_document(failure), "finished_at": func.now()}
        of_block = select(SessionRow.id).where(SessionRow.block_id == block_id)
        await self._session.execute(
            update(RunRow)
            .where(RunRow.session_id.in_(of_block), RunRow.state.in_(OPEN_RUNS))
            .values(state=RunState.FAILED, **ended)
        )
        await self._session.execute(
            update(SessionRow)
            .where(SessionRow.block_id == block_id, SessionRow.state.in_(OPEN_SESSIONS))
            .values(state=SessionState.FAILED, **ended)
        )


def _documents(warnings: Sequence[StartupWarning]) -> list[Json]:
    return [storable(warning.model_dump(mode="json")) for warning in warnings]
