"""Takes other tools' results in, and gives an experiment's evidence out in their formats."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from anyio import to_thread
from starlette.concurrency import iterate_in_threadpool

from app.access.audit.repository import record
from app.db.repository import resolve
from app.db.session import Database
from app.domain.errors import IllegalTransition, NotFound
from app.evidence.repository import RunRecord
from app.interop.exports.encoder import ExportFormat
from app.interop.exports.formats import file_name, format_of
from app.interop.exports.outline import Outline, RunKey
from app.interop.imports.reading import read_result
from app.interop.repository import ExportRepository, ImportRepository
from app.interop.schemas import ImportRead


class AlreadyImported(IllegalTransition):
    """The same file is here under another label or beside another experiment."""

    title = "The file was imported before"


class ImportService:
    """One per request."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, content: bytes, label: str, reference: str | None) -> tuple[ImportRead, bool]:
        """Keep a file's result and say whether it is new.

        Raises ``ImportRefused``, ``NotFound`` for an unknown experiment, or ``AlreadyImported``.
        """
        result = await to_thread.run_sync(read_result, content, label)
        async with self._database.transaction() as session:
            experiment = None if reference is None else await resolve(session, reference)
            imports = ImportRepository(session)
            created = await imports.add(result, experiment)
            try:
                stored = await imports.read(result.source_sha256)
            except NotFound as hidden:
                remedy = "it is a file of bytes, and the first project to import it has it"
                raise AlreadyImported.of("(body)", "another project has imported this file", remedy) from hidden
        if (stored.experiment_id, stored.result.label) != (experiment, result.label):
            where = f"as {stored.result.label!r}, experiment {stored.experiment_id or 'none'}"
            remedy = f"delete it first: DELETE /api/v1/imports/{stored.digest}"
            raise AlreadyImported.of("(body)", f"this file was imported {where}", remedy)
        return stored, created

    async def all(self) -> list[ImportRead]:
        """Every imported result, newest first."""
        async with self._database.reader() as session:
            return await ImportRepository(session).all()

    async def page(self, cursor: str | None, limit: int) -> tuple[list[ImportRead], str | None]:
        """As many, newest first, and the cursor of what follows."""
        async with self._database.reader() as session:
            found = await ImportRepository(session).page(cursor, limit + 1)
        return found[:limit], found[limit - 1].digest if len(found) > limit else None

    async def of_experiment(self, reference: str) -> list[ImportRead]:
        """Those beside an experiment; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await ImportRepository(session).all(await resolve(session, reference))

    async def remove(self, digest: str) -> None:
        """Forget an imported result; raises ``NotFound``."""
        async with self._database.transaction() as session:
            await ImportRepository(session).remove(digest)
            await record(session, "import.delete", digest)


@dataclass(frozen=True, slots=True)
class Export:
    """An export that is about to be written."""

    outline: Outline
    format: ExportFormat
    records: tuple[RunRecord, ...]

    @property
    def file_name(self) -> str:
        """What the file is called."""
        return file_name(self.outline.experiment, self.format)


class ExportService:
    """One per request."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, reference: str, name: str, run: str | None = None) -> Export:
        """Everything that can be refused is refused here, before the first byte. Raises ``NotFound``."""
        chosen = format_of(name, one_run=run is not None)
        async with self._database.reader() as session:
            source = await ExportRepository(session).source(await resolve(session, reference))
        outline, key = Outline(source.evidence), None if run is None else RunKey.parse(run)
        outline.check(key)
        kept = tuple(r for r in source.records if key is None or RunKey.of(r.evidence) == key)
        return Export(outline, chosen, kept)

    async def content(self, export: Export) -> AsyncGenerator[bytes]:
        """The export in pieces. Committed evidence does not change, so it is still what was opened."""
        encoder = export.format.encoder(export.outline)
        yield encoder.begin()
        async with self._database.reader() as session:
            runs = ExportRepository(session).runs(
                export.outline.experiment, export.records, whole=export.format.whole_runs
            )
            async for run in runs:
                async for piece in iterate_in_threadpool(encoder.add(run)):
                    yield piece
        yield await to_thread.run_sync(encoder.end)
