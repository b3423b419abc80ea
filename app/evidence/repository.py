"""Evidence in Postgres: written once under a fence, read back exactly.

Observations go in by COPY. A report reads only the committed attempt of each block.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from pydantic import JsonValue, TypeAdapter
from sqlalchemy import func, or_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.access_models import TraceHolderRow
from app.db.acting import project_of_actor
from app.db.models import (
    ArtifactRow,
    BlockRow,
    CapabilityRow,
    ExperimentRow,
    RunRow,
    SeriesRow,
    SessionRow,
    TraceRow,
    VerificationRow,
)
from app.db.repository import Fenced, counts, hold_run, hold_session
from app.db.session import driver
from app.domain.errors import NotFound
from app.domain.evidence import (
    CounterDeltas,
    ExperimentEvidence,
    Failure,
    RunEvidence,
    SessionEvidence,
    labels_of,
    split,
)
from app.domain.lifecycle import BlockState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.series import Series
from app.domain.trace import Trace, parse_trace
from app.evidence.packing import PackedTrace, StoredTrace, pack_trace, unpack_lines
from app.evidence.rows import COPY_SERIES, COPY_STATEMENT, SELECT_RUNS, Row, by_run, copy_blocks, series_blocks
from app.evidence.schemas import ArtifactRead
from app.evidence.stretches import joined_series, stretches_of
from app.runs.packing import unpack_verification

_COMMITTED = (BlockState.SUCCEEDED, BlockState.FAILED)


ROWS_AT_ONCE = 2000


class RunRecord(NamedTuple):
    """A run under the id by which its observations are found; ``evidence`` has none of them yet."""

    id: UUID
    evidence: RunEvidence


class CommittedBlock(NamedTuple):
    """A block whose evidence counts and will not change; equal tuples mean equal evidence."""

    block: int
    fence: int


class EvidenceRepository:
    """Traces, observations, series, artifacts and capabilities, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def record_observations(self, run_id: UUID, fence: int, observations: Sequence[RequestObservation]) -> None:
        """Add what the client saw of a run; raises ``Fenced`` if the lease was lost."""
        experiment_id = await hold_run(self._session, run_id, fence)
        async with (await driver(self._session)).cursor() as cursor, cursor.copy(COPY_STATEMENT) as copy:
            for block in copy_blocks(experiment_id, run_id, observations):
                await copy.write(block)

    async def record_series(self, run_id: UUID, fence: int, series: Sequence[Series]) -> None:
        """Add what was sampled while a run went on, a row for each stretch; raises ``Fenced``."""
        experiment_id = await hold_run(self._session, run_id, fence)
        async with (await driver(self._session)).cursor() as cursor, cursor.copy(COPY_SERIES) as copy:
            for block in series_blocks(experiment_id, run_id, stretches_of(series)):
                await copy.write(block)

    async def record_artifact(  # noqa: PLR0917  (a file is these six facts)
        self, kind: str, sha256: str, path: str, session_id: UUID | None, run_id: UUID | None, size: int
    ) -> None:
        """Reference a file under the artifact root; ``size`` in bytes."""
        if session_id is not None:
            await self._hold_own_session(session_id)
        if run_id is not None:
            await self._hold_own_run(run_id)
        self._session.add(
            ArtifactRow(kind=kind, sha256=sha256, path=path, session_id=session_id, run_id=run_id, bytes=size)
        )
        await self._session.flush()

    async def store_trace(self, trace: Trace) -> bool:
        """Keep a trace that is in memory; ``False`` if it was already there."""
        return await self.store_packed(pack_trace([trace.encode()]))

    async def store_packed(self, trace: PackedTrace) -> bool:
        """Keep a trace under its digest; ``False`` if the project had it already."""
        summary = trace.summary.model_dump(mode="json")
        row = {
            "digest": trace.summary.digest,
            "name": trace.summary.header.name,
            "header": summary["header"],
            "requests": trace.summary.requests,
            "body": trace.body,
            "summary": summary,
        }
        await self._session.execute(insert(TraceRow).values(row).on_conflict_do_nothing())
        held = {"project": project_of_actor(), "trace": trace.summary.digest}
        added = insert(TraceHolderRow).values(held).on_conflict_do_nothing().returning(TraceHolderRow.trace)
        return await self._session.scalar(added) is not None

    async def read_trace(self, digest: str) -> Trace:
        """The trace of that digest, parsed whole; raises ``NotFound``."""
        stored = await self.open_trace(digest)
        return parse_trace(b"\n".join(unpack_lines(stored.body)))

    async def open_trace(self, digest: str) -> StoredTrace:
        """The trace of that digest, to be read as often as needed in little memory; raises ``NotFound``."""
        body = await self._session.scalar(select(TraceRow.body).where(TraceRow.digest == digest))
        if body is None:
            raise NotFound.of("trace", f"no trace has the digest {digest}", "upload it with POST /api/v1/traces")
        return StoredTrace(body)

    async def publish_capabilities(
        self, worker: str, document: dict[str, JsonValue], idle_because: str | None = None
    ) -> None:
        """Replace what ``worker`` says it can run, and why it takes no blocks at present."""
        seen = {"document": document, "idle_because": idle_because, "seen_at": func.now()}
        row = insert(CapabilityRow).values(worker=worker, **seen)
        await self._session.execute(row.on_conflict_do_update(index_elements=["worker"], set_=seen))

    async def committed(self, experiment_id: str) -> tuple[CommittedBlock, ...]:
        """The blocks that ``load_evidence`` would read, by index."""
        query = (
            select(BlockRow.index, BlockRow.fence)
            .where(BlockRow.experiment_id == experiment_id, BlockRow.state.in_(_COMMITTED))
            .order_by(BlockRow.index)
        )
        return tuple(CommittedBlock(index, fence) for index, fence in (await self._session.execute(query)).all())

    async def manifest(self, experiment_id: str) -> Manifest:
        """The experiment's manifest; raises ``NotFound``."""
        query = select(ExperimentRow.manifest).where(ExperimentRow.digest == experiment_id)
        document = await self._session.scalar(query)
        if document is None:
            raise NotFound.of("experiment", f"no experiment has the digest {experiment_id}", "list the experiments")
        return Manifest.model_validate(document)

    async def load_evidence(self, experiment_id: str) -> ExperimentEvidence:
        """All that the analysis may read: the committed attempt of each block. Raises ``NotFound``."""
        manifest = await self.manifest(experiment_id)
        traces = {w.name: await self.open_trace(w.trace) for w in manifest.workloads}
        return ExperimentEvidence(
            manifest=manifest,
            labels={name: labels_of(trace) for name, trace in traces.items()},
            content_valid={name: trace.header.content_valid for name, trace in traces.items()},
            **split(session for _, session in await self.session_records(experiment_id)),
            runs=await self._runs(experiment_id),
        )

    async def offered(self, experiment_id: str) -> int:
        """How many observations the experiment has, of whatever attempt; by the partition alone."""
        query = text("SELECT count(*) FROM observation WHERE experiment = :experiment")
        return int(await self._session.scalar(query, {"experiment": experiment_id}) or 0)

    async def artifacts(
        self, session_ids: Sequence[UUID], run_ids: Sequence[UUID]
    ) -> tuple[tuple[UUID, ArtifactRead], ...]:
        """The files of these sessions and runs, each with its owner."""
        of_them = or_(ArtifactRow.session_id.in_(session_ids), ArtifactRow.run_id.in_(run_ids))
        query = select(ArtifactRow).where(of_them).order_by(ArtifactRow.created_at, ArtifactRow.id)
        return tuple(
            (owner, artifact_of(row))
            for row in await self._session.scalars(query)
            if (owner := row.session_id or row.run_id) is not None
        )

    async def session_records(self, experiment_id: str) -> tuple[tuple[UUID, SessionEvidence], ...]:
        """The sessions that the analysis may read, each with its id; those that diagnose are among them."""
        query = (
            select(SessionRow, BlockRow.index, VerificationRow.document)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .outerjoin(VerificationRow, VerificationRow.session_id == SessionRow.id)
            .where(BlockRow.experiment_id == experiment_id, BlockRow.state.in_(_COMMITTED))
            .where(counts())
            .order_by(BlockRow.index, SessionRow.position, SessionRow.started_at)
        )
        rows = (await self._session.execute(query)).all()
        return tuple((row.id, _session_evidence(row, index, document)) for row, index, document in rows)

    async def run_records(self, experiment_id: str) -> tuple[RunRecord, ...]:
        """The runs that the analysis may read, without what was seen in them."""
        query = (
            select(RunRow, SessionRow.arm, BlockRow.index)
            .join(SessionRow, SessionRow.id == RunRow.session_id)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .where(BlockRow.experiment_id == experiment_id, BlockRow.state.in_(_COMMITTED))
            .where(counts())
            .order_by(BlockRow.index, SessionRow.position, RunRow.started_at)
        )
        rows = (await self._session.execute(query)).all()
        return tuple(RunRecord(run.id, _run_evidence(run, arm, index)) for run, arm, index in rows)

    async def read_rows(self, experiment_id: str, run_ids: Sequence[UUID]) -> AsyncGenerator[Sequence[Row]]:
        """What was seen in these runs, one after the other, by due time: portions of (run, ``FIELDS``)."""
        async with (await driver(self._session)).cursor("observations", binary=True) as cursor:
            await cursor.execute(SELECT_RUNS, (experiment_id, list(run_ids), list(run_ids)))
            while rows := await cursor.fetchmany(ROWS_AT_ONCE):
                yield rows

    async def read_series(self, experiment_id: str, run_ids: Sequence[UUID]) -> dict[UUID, tuple[Series, ...]]:
        """What was sampled during these runs."""
        columns = (SeriesRow.run_id, SeriesRow.name, SeriesRow.labels, SeriesRow.at_ns, SeriesRow.values)
        query = (
            select(*columns)
            .where(SeriesRow.experiment == experiment_id, SeriesRow.run_id.in_(run_ids))
            .order_by(SeriesRow.run_id, SeriesRow.name, SeriesRow.labels, SeriesRow.chunk)
        )
        rows = (await self._session.execute(query)).all()
        return {run_id: joined_series(group) for run_id, group in groupby(rows, key=itemgetter(0))}

    async def _runs(self, experiment_id: str) -> tuple[RunEvidence, ...]:
        records = await self.run_records(experiment_id)
        ids = [record.id for record in records]
        seen: dict[UUID, list[RequestObservation]] = defaultdict(list)
        async for rows in self.read_rows(experiment_id, ids):
            for run_id, portion in by_run(rows):
                seen[run_id] += portion
        series = await self.read_series(experiment_id, ids)
        return tuple(
            record.evidence.model_copy(
                update={"observations": tuple(seen[record.id]), "series": series.get(record.id, ())}
            )
            for record in records
        )

    async def _hold_own_run(self, run_id: UUID) -> None:
        """Fence a write by the fence that the run itself was started under."""
        fence = await self._session.scalar(select(RunRow.fence).where(RunRow.id == run_id))
        await hold_run(self._session, run_id, _known(fence, "run"))

    async def _hold_own_session(self, session_id: UUID) -> None:
        fence = await self._session.scalar(select(SessionRow.fence).where(SessionRow.id == session_id))
        await hold_session(self._session, session_id, _known(fence, "session"))


def artifact_of(row: ArtifactRow) -> ArtifactRead:
    """A stored file as readers see it."""
    return ArtifactRead.model_validate({name: getattr(row, name) for name in ArtifactRead.model_fields})


def _known(fence: int | None, what: str) -> int:
    if fence is None:
        raise Fenced.of(what, f"there is no such {what}", "stop; it was deleted")
    return fence


def _session_evidence(row: SessionRow, block: int, document: bytes | None) -> SessionEvidence:
    joined = {"block": block, "verification": document and unpack_verification(document)}
    own = {name: getattr(row, name) for name in SessionEvidence.model_fields if name not in joined}
    return SessionEvidence.model_validate({**own, **joined})


def _run_evidence(run: RunRow, arm: str, block: int) -> RunEvidence:
    return RunEvidence(
        block=block,
        arm=arm,
        workload=run.workload,
        load=run.load,
        attempt=run.attempt,
        state=run.state,
        failure=None if run.failure is None else Failure.model_validate(run.failure),
        counters=None if run.counters is None else CounterDeltas.model_validate(run.counters),
        unobservable={name: str(why) for name, why in run.unobservable.items()},
        scorer=run.scorer,
        scores=TypeAdapter(dict[str, float]).validate_python(run.scores),
    )
