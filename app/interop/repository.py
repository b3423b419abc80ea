"""Other tools' results in Postgres, and an experiment's evidence read for an export, one run after the other."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import ImportedResultRow
from app.domain.errors import NotFound
from app.domain.evidence import ExperimentEvidence, RunEvidence, labels_of, split
from app.domain.observation import RequestObservation
from app.evidence.repository import EvidenceRepository, RunRecord
from app.evidence.rows import by_run
from app.interop.imports.result import ImportedResult
from app.interop.schemas import ImportRead


class ImportRepository:
    """Imported results, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, result: ImportedResult, experiment_id: str | None) -> bool:
        """Keep a result under its file's digest; ``False`` if that file was imported before."""
        row = {
            "digest": result.source_sha256,
            "experiment_id": experiment_id,
            "label": result.label,
            "tool": result.tool,
            "document": result.model_dump(mode="json"),
        }
        added = insert(ImportedResultRow).values(row).on_conflict_do_nothing().returning(ImportedResultRow.digest)
        return await self._session.scalar(added) is not None

    async def read(self, digest: str) -> ImportRead:
        """One result; raises ``NotFound``."""
        row = await self._session.get(ImportedResultRow, digest)
        if row is None:
            raise NotFound.of("import", f"no imported file has the digest {digest[:64]}", "list the imports")
        return _read(row)

    async def all(self, experiment_id: str | None = None) -> list[ImportRead]:
        """Every result, or those of one experiment, newest first."""
        query = select(ImportedResultRow).order_by(ImportedResultRow.created_at.desc(), ImportedResultRow.digest)
        if experiment_id is not None:
            query = query.where(ImportedResultRow.experiment_id == experiment_id)
        return [_read(row) for row in await self._session.scalars(query)]

    async def page(self, after: str | None, limit: int) -> list[ImportRead]:
        """Newest first, those that follow the result ``after``; raises ``NotFound`` for one that is not there."""
        row, place = ImportedResultRow, (ImportedResultRow.created_at, ImportedResultRow.digest)
        query = select(row).order_by(*(column.desc() for column in place)).limit(limit)
        if after is not None:
            last = (await self._session.execute(select(*place).where(row.digest == after))).one_or_none()
            if last is None:
                raise NotFound.of("cursor", "it points to no imported file", "start again without a cursor")
            query = query.where(tuple_(*place) < tuple_(*last))
        return [_read(found) for found in await self._session.scalars(query)]

    async def remove(self, digest: str) -> None:
        """Forget a result; raises ``NotFound``."""
        gone = delete(ImportedResultRow).where(ImportedResultRow.digest == digest).returning(ImportedResultRow.digest)
        if await self._session.scalar(gone) is None:
            raise NotFound.of("import", f"no imported file has the digest {digest[:64]}", "list the imports")


class ExportSource(NamedTuple):
    """All that an export needs before its first observation."""

    evidence: ExperimentEvidence
    """Its runs have no observations."""
    records: tuple[RunRecord, ...]


class ExportRepository:
    """What an export reads, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session, self._evidence = session, EvidenceRepository(session)

    async def source(self, experiment_id: str) -> ExportSource:
        """The experiment's committed evidence without what was seen in its runs; raises ``NotFound``."""
        manifest = await self._evidence.manifest(experiment_id)
        traces = {w.name: await self._evidence.open_trace(w.trace) for w in manifest.workloads}
        records = await self._evidence.run_records(experiment_id)
        evidence = ExperimentEvidence(
            manifest=manifest,
            labels={name: labels_of(trace) for name, trace in traces.items()},
            content_valid={name: trace.header.content_valid for name, trace in traces.items()},
            **split(session for _, session in await self._evidence.session_records(experiment_id)),
            runs=tuple(record.evidence for record in records),
        )
        return ExportSource(evidence, records)

    async def runs(
        self, experiment_id: str, records: Sequence[RunRecord], *, whole: bool
    ) -> AsyncGenerator[RunEvidence]:
        """These runs with what was seen in them: each ``whole``, or in the portions in which it is read."""
        for record in records:
            seen: list[RequestObservation] = []
            async for rows in self._evidence.read_rows(experiment_id, [record.id]):
                seen += (observation for _, portion in by_run(rows) for observation in portion)
                if not whole:
                    yield _with(record, seen)
                    seen = []
            if whole:
                yield _with(record, seen)


def _with(record: RunRecord, seen: Sequence[RequestObservation]) -> RunEvidence:
    return record.evidence.model_copy(update={"observations": tuple(seen)})


def _read(row: ImportedResultRow) -> ImportRead:
    return ImportRead(
        digest=row.digest,
        experiment_id=row.experiment_id,
        created_at=row.created_at,
        result=ImportedResult.model_validate(row.document),
    )
