"""Failures across all experiments: counted by class, the newest one by one, and the attempts that were made again."""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Select, case, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, ExperimentRow, RunRow, SessionRow
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.vocabulary import FailureClass
from app.operations.schemas import FailedRead, FailureCount, FailureLevel, Retries

DAY: Final = timedelta(days=1)
_NO_FAILURE: Final = (FailureClass.CANCELED, FailureClass.NOT_NEEDED)
_ROWS: Final = {FailureLevel.BLOCK: BlockRow, FailureLevel.SESSION: SessionRow, FailureLevel.RUN: RunRow}


class FailureViews:
    """Reads; inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def counts(self) -> list[FailureCount]:
        """By level and class, those of every attempt; a stop on request counts as CANCELED."""
        return [count for level in FailureLevel for count in await self._counts(level)]

    async def newest(self, limit: int) -> list[FailedRead]:
        """The newest ``limit`` of all levels, those of every attempt, without stops on request."""
        found = [failed for level in FailureLevel for failed in await self._newest(level, limit)]
        return sorted(found, key=lambda failed: failed.at, reverse=True)[:limit]

    async def retries(self) -> Retries:
        """Attempts before the newest; all of them where the block is queued for another."""
        spent = case((BlockRow.state == BlockState.QUEUED, BlockRow.attempt), else_=BlockRow.attempt - 1)
        lately = func.sum(spent).filter(BlockRow.started_at > func.now() - DAY)
        query = select(lately, func.sum(spent)).where(BlockRow.attempt > 0)
        last_day, in_all = (await self._session.execute(query)).one()
        return Retries(last_day=int(last_day or 0), in_all=int(in_all or 0))

    async def _counts(self, level: FailureLevel) -> list[FailureCount]:
        row = _ROWS[level]
        word = row.failure["failure_class"].astext
        lately = func.count().filter(row.finished_at > func.now() - DAY)
        query = select(word, lately, func.count()).where(row.failure.is_not(None)).group_by(word).order_by(word)
        return [
            FailureCount(level=level, failure_class=FailureClass(name), last_day=last_day, in_all=in_all)
            for name, last_day, in_all in (await self._session.execute(query)).all()
        ]

    async def _newest(self, level: FailureLevel, limit: int) -> list[FailedRead]:
        row = _ROWS[level]
        failed = row.failure["failure_class"].astext.not_in(_NO_FAILURE), row.finished_at.is_not(None)
        newest = select(row.id).where(row.failure.is_not(None), *failed).order_by(row.finished_at.desc()).limit(limit)
        query = _QUERIES[level].where(row.id.in_(newest))  # found before anything is joined: there may be many runs
        return [_failed(level, dict(found)) for found in (await self._session.execute(query)).mappings()]


def _failed(level: FailureLevel, found: dict[str, Any]) -> FailedRead:
    failure = Failure.model_validate(found.pop("failure"))
    log, run, session = (found.pop(name, None) for name in ("log_sha256", "run_id", "session_id"))
    at_experiment = f"/experiments/{found['experiment_id'][:12]}"
    page = f"/runs/{run}" if run else f"/sessions/{session}/log" if log else at_experiment
    return FailedRead(level=level, failure_class=failure.failure_class, message=failure.message, page=page, **found)


_OF_EXPERIMENT = (ExperimentRow.digest.label("experiment_id"), ExperimentRow.name.label("experiment_name"))
_BLOCKS: Select[*tuple[Any, ...]] = select(
    BlockRow.finished_at.label("at"), BlockRow.failure, BlockRow.index.label("block"), *_OF_EXPERIMENT
).join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
_SESSIONS: Select[*tuple[Any, ...]] = (
    select(
        SessionRow.finished_at.label("at"),
        SessionRow.failure,
        SessionRow.arm,
        SessionRow.id.label("session_id"),
        SessionRow.log_sha256,
        BlockRow.index.label("block"),
        *_OF_EXPERIMENT,
    )
    .join(BlockRow, BlockRow.id == SessionRow.block_id)
    .join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
)
_RUNS: Select[*tuple[Any, ...]] = (
    select(
        RunRow.finished_at.label("at"),
        RunRow.failure,
        RunRow.id.label("run_id"),
        RunRow.workload,
        RunRow.load,
        SessionRow.arm,
        BlockRow.index.label("block"),
        *_OF_EXPERIMENT,
    )
    .join(SessionRow, SessionRow.id == RunRow.session_id)
    .join(BlockRow, BlockRow.id == SessionRow.block_id)
    .join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
)
_QUERIES: Final = {FailureLevel.BLOCK: _BLOCKS, FailureLevel.SESSION: _SESSIONS, FailureLevel.RUN: _RUNS}
