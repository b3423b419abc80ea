"""Sessions and runs of a claimed block, as its worker writes them (method B3).

Every write names the fence it was claimed with and locks the block, so it cannot interleave with the
reaper. Locks are taken block first, experiment last.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from app.db.base import Json
from app.db.models import BlockRow, RunRow, SessionRow, VerificationRow
from app.db.repository import failure_document, hold, hold_run, hold_session, storable, touch
from app.domain.condition import Condition
from app.domain.control import Control
from app.domain.errors import IllegalTransition
from app.domain.evidence import CounterDeltas, Failure
from app.domain.lifecycle import (
    RUN_MOVES,
    SESSION_MOVES,
    RunState,
    SessionState,
    is_terminal,
    sources_of,
)
from app.domain.resume import EarlierSession
from app.domain.run_summary import RunSummary
from app.domain.startup import StartupWarning
from app.domain.verified import VerificationRecord
from app.runs.facts import SessionFacts
from app.runs.packing import pack_verification


class SessionRepository:
    """What a worker does to sessions and runs, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def earlier(self, block_id: UUID, fence: int) -> list[EarlierSession]:
        """What counted for the newest attempt before ``fence`` that had anything; one may end before it begins."""
        counted_for = func.coalesce(SessionRow.adopted_fence, SessionRow.fence)
        before = select(func.max(counted_for)).where(SessionRow.block_id == block_id, counted_for < fence)
        counted = counted_for == before.scalar_subquery()
        measured = SessionRow.diagnosing.is_(False)
        idle_s = func.extract("epoch", func.now() - SessionRow.finished_at)
        query = select(SessionRow, idle_s).where(SessionRow.block_id == block_id, counted, measured)
        rows = (await self._session.execute(query)).all()
        return [await self._earlier(row, float(seconds or 0)) for row, seconds in rows]

    async def adopt(self, block_id: UUID, fence: int, sessions: Sequence[UUID]) -> None:
        """Let earlier sessions count for the attempt of ``fence``; raises ``Fenced``."""
        experiment_id = await hold(self._session, BlockRow.id == block_id, fence)
        these = SessionRow.id.in_(sessions), SessionRow.block_id == block_id
        await self._session.execute(update(SessionRow).where(*these).values(adopted_fence=fence))
        await touch(self._session, experiment_id)

    async def start_session(
        self, block_id: UUID, fence: int, arm: str, position: int, *, diagnosing: bool = False
    ) -> UUID:
        """Record that a fresh server of ``arm`` is being started; one that is ``diagnosing`` measures nothing."""
        experiment_id = await hold(self._session, BlockRow.id == block_id, fence)
        facts = select(BlockRow.attempt, BlockRow.accelerators).where(BlockRow.id == block_id)
        attempt, accelerators = (await self._session.execute(facts)).one()
        row = SessionRow(
            block_id=block_id,
            fence=fence,
            attempt=attempt,
            accelerators=accelerators,
            arm=arm,
            position=position,
            state=SessionState.STARTING,
            diagnosing=diagnosing,
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
                memory_breakdown=_maybe(facts.memory_breakdown),
                devices=[_document(device) for device in facts.devices],
                warnings=[_document(warning) for warning in facts.warnings],
                canary=_maybe(facts.canary),
                flags_left_out=storable(facts.flags_left_out),
            )
        )
        await touch(self._session, experiment_id)

    async def record_warnings(self, session_id: UUID, fence: int, warnings: Sequence[StartupWarning]) -> None:
        """Replace the session's warnings by those of its whole log."""
        experiment_id = await hold_session(self._session, session_id, fence)
        await self._session.execute(
            update(SessionRow)
            .where(SessionRow.id == session_id)
            .values(warnings=[_document(warning) for warning in warnings])
        )
        await touch(self._session, experiment_id)

    async def record_verification(self, session_id: UUID, fence: int, record: VerificationRecord) -> None:
        """Keep what the session's server was asked beside its runs; a later record replaces an earlier one."""
        experiment_id = await hold_session(self._session, session_id, fence)
        document = pack_verification(record)
        row = insert(VerificationRow).values(session_id=session_id, document=document)
        await self._session.execute(
            row.on_conflict_do_update(index_elements=["session_id"], set_={"document": document})
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
        controls: Sequence[Control] = (),
        unobservable: Mapping[str, str] | None = None,
        scorer: str | None = None,
        scores: Mapping[str, float] | None = None,
    ) -> None:
        """End a run with its counters, live summary and controls; raises ``Fenced`` or ``IllegalTransition``."""
        experiment_id = await hold_run(self._session, run_id, fence)
        ended = await self._session.scalar(
            update(RunRow)
            .where(RunRow.id == run_id, RunRow.state.in_(sources_of(RUN_MOVES, state)))
            .values(
                state=state,
                failure=failure_document(failure),
                counters=_maybe(counters),
                summary=_maybe(summary),
                controls=[_document(control) for control in controls],
                unobservable=storable({**(unobservable or {})}),
                scorer=scorer,
                scores=storable({**(scores or {})}),
                finished_at=func.clock_timestamp(),
            )
            .returning(RunRow.id)
        )
        if ended is None:
            raise IllegalTransition.of("state", f"the run is over and cannot become {state}", "start another run")
        await touch(self._session, experiment_id)

    async def _earlier(self, row: SessionRow, idle_s: float) -> EarlierSession:
        runs = select(RunRow.workload, RunRow.load).where(
            RunRow.session_id == row.id, RunRow.state == RunState.SUCCEEDED
        )
        measured = (await self._session.execute(runs)).all()
        verified = await self._session.get(VerificationRow, row.id, options=[load_only(VerificationRow.session_id)])
        return EarlierSession(
            id=row.id,
            arm=row.arm,
            over=row.state in {SessionState.SUCCEEDED, SessionState.FAILED},
            succeeded=frozenset(Condition(row.arm, workload, load) for workload, load in measured),
            idle_s=idle_s,
            accelerators=tuple(row.accelerators),
            verified=verified is not None,
        )


def _document(value: BaseModel) -> Json:
    return storable(value.model_dump(mode="json"))


def _maybe(value: BaseModel | None) -> Json | None:
    return None if value is None else _document(value)
