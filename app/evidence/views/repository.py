"""Evidence read for pages and the API."""

from uuid import UUID

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import (
    ArtifactRow,
    BlockRow,
    CapabilityRow,
    ObservationRow,
    RunRow,
    SeriesRow,
    SessionRow,
    TraceRow,
)
from app.db.session import driver
from app.domain.errors import NotFound
from app.domain.observation import RequestObservation
from app.domain.series import Series
from app.domain.timeline import Span
from app.domain.trace import TraceRequest
from app.domain.trace_summary import TraceSummary
from app.evidence.packing import HEAD_BYTES, first_requests
from app.evidence.repository import artifact_of
from app.evidence.rows import SELECT_PAGE, observation_of
from app.evidence.schemas import ArtifactRead, CapabilityRead, TraceRead
from app.evidence.stretches import joined_series


class EvidenceViews:
    """Reads; inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def traces(self) -> list[TraceRead]:
        """Every trace, newest first."""
        query = select(TraceRow).order_by(TraceRow.created_at.desc(), TraceRow.digest)
        return [_trace(row) for row in await self._session.scalars(query)]

    async def trace_page(self, after: str | None, limit: int) -> list[TraceRead]:
        """Newest first, those that follow the trace ``after``; raises ``NotFound`` for one that is not there."""
        place = (TraceRow.created_at, TraceRow.digest)
        query = select(TraceRow).order_by(*(column.desc() for column in place)).limit(limit)
        if after is not None:
            last = (await self._session.execute(select(*place).where(TraceRow.digest == after))).one_or_none()
            if last is None:
                raise NotFound.of("cursor", "it points to no workload", "start again without a cursor")
            query = query.where(tuple_(*place) < tuple_(*last))
        return [_trace(row) for row in await self._session.scalars(query)]

    async def trace(self, digest: str) -> TraceRead:
        """The trace of that digest; raises ``NotFound``."""
        row = await self._session.get(TraceRow, digest)
        if row is None:
            raise NotFound.of("trace", f"no trace has the digest {digest}", "list the traces")
        return _trace(row)

    async def trace_digest(self, prefix: str) -> str:
        """The one digest that begins with ``prefix``; raises ``NotFound`` where there is none or more than one."""
        query = select(TraceRow.digest).where(TraceRow.digest.startswith(prefix, autoescape=True)).limit(2)
        found = list(await self._session.scalars(query))
        if len(found) != 1:
            message = (
                f"{'no trace' if not found else 'more than one trace'} has a digest that begins with {prefix[:64]}"
            )
            raise NotFound.of("trace", message, "list the workloads, or give the whole digest")
        return found[0]

    async def trace_summary(self, digest: str) -> TraceSummary | None:
        """What was counted when the trace was stored; ``None`` for one stored before that. Raises ``NotFound``."""
        found = await self._session.execute(select(TraceRow.summary).where(TraceRow.digest == digest))
        row = found.one_or_none()
        if row is None:
            raise NotFound.of("trace", f"no trace has the digest {digest}", "list the traces")
        return None if row[0] is None else TraceSummary.model_validate(row[0])

    async def first_requests(self, digest: str, count: int) -> list[TraceRequest]:
        """The first requests of a trace, without fetching the rest of a large one; raises ``NotFound``."""
        head = func.substr(TraceRow.body, 1, HEAD_BYTES)
        body = await self._session.scalar(select(head).where(TraceRow.digest == digest))
        if body is None:
            raise NotFound.of("trace", f"no trace has the digest {digest}", "list the traces")
        return first_requests(bytes(body), count)

    async def observations(self, run_id: UUID, after: str, limit: int) -> list[RequestObservation]:
        """Those of a run whose request id comes after ``after``; raises ``NotFound`` for an unknown run."""
        experiment = await self._experiment_of(run_id)
        async with (await driver(self._session)).cursor(binary=True) as cursor:
            await cursor.execute(SELECT_PAGE, (experiment, run_id, after, limit))
            return [observation_of(row[1:]) for row in await cursor.fetchall()]

    async def series(self, run_id: UUID) -> list[Series]:
        """Everything sampled during a run; raises ``NotFound`` for an unknown run."""
        here = SeriesRow.experiment == await self._experiment_of(run_id), SeriesRow.run_id == run_id
        query = select(SeriesRow).where(*here).order_by(SeriesRow.name, SeriesRow.labels, SeriesRow.chunk)
        return list(joined_series(await self._session.scalars(query)))

    async def spans(self, run_id: UUID) -> list[Span]:
        """When each request of a run was due and ended; raises ``NotFound`` for an unknown run."""
        here = ObservationRow.experiment == await self._experiment_of(run_id), ObservationRow.run_id == run_id
        query = select(ObservationRow.due_ns, ObservationRow.end_ns).where(*here)
        return [Span(due_ns, end_ns) for due_ns, end_ns in (await self._session.execute(query)).all()]

    async def logs(self, session_id: UUID) -> list[ArtifactRead]:
        """The log files of a session, newest first; raises ``NotFound`` for an unknown session."""
        if await self._session.get(SessionRow, session_id) is None:
            raise NotFound.of("session", f"there is no session {session_id}", "list the experiment's sessions")
        query = select(ArtifactRow).where(ArtifactRow.session_id == session_id, ArtifactRow.kind.endswith("log"))
        rows = await self._session.scalars(query.order_by(ArtifactRow.created_at.desc(), ArtifactRow.kind))
        return [artifact_of(row) for row in rows]

    async def capabilities(self) -> list[CapabilityRead]:
        """What each worker published last."""
        rows = await self._session.scalars(select(CapabilityRow).order_by(CapabilityRow.worker))
        return [CapabilityRead(worker=r.worker, document=r.document, seen_at=r.seen_at) for r in rows]

    async def _experiment_of(self, run_id: UUID) -> str:
        query = select(BlockRow.experiment_id).join(SessionRow).join(RunRow).where(RunRow.id == run_id)
        experiment = await self._session.scalar(query)
        if experiment is None:
            raise NotFound.of("run", f"there is no run {run_id}", "list the experiment's runs")
        return experiment


def _trace(row: TraceRow) -> TraceRead:
    return TraceRead.model_validate({name: getattr(row, name) for name in TraceRead.model_fields})
