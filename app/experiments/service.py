"""Decides about experiments: whether one may be registered, and when workers are woken. Opens the transactions."""

from app.db.repository import resolve
from app.db.session import Database
from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest
from app.domain.preflight import problems_of
from app.experiments.progress import read
from app.experiments.repository import ExperimentRepository
from app.experiments.schemas import OWNER, PRIORITY, ExperimentPage, ExperimentRead
from app.preflight.service import examine
from app.queue import wake
from app.settings import Settings


class ExperimentService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    async def register(
        self, manifest: Manifest, owner: str = OWNER, priority: int = PRIORITY
    ) -> tuple[ExperimentRead, bool]:
        """The experiment of this manifest and whether it is new; a known one keeps its owner and priority.

        Raises ``ManifestRefused`` with every check of preflight that refuses a new one.
        """
        async with self._database.transaction() as session:
            repository = ExperimentRepository(session)
            created = await repository.add(manifest, owner, priority)
            problems = problems_of((await examine(session, manifest)).checks) if created else []
            if problems:
                raise ManifestRefused(*problems)
            experiment = read(await repository.facts(manifest.digest))
        if created:
            wake(self._settings, manifest.hardware.accelerator)
        return experiment, created

    async def read(self, reference: str) -> ExperimentRead:
        """The experiment of that digest or prefix; raises ``NotFound``."""
        async with self._database.reader() as session:
            repository = ExperimentRepository(session)
            return read(await repository.facts(await resolve(session, reference)))

    async def manifest(self, reference: str) -> Manifest:
        """The experiment's manifest; raises ``NotFound``."""
        async with self._database.reader() as session:
            repository = ExperimentRepository(session)
            return (await repository.facts(await resolve(session, reference))).manifest

    async def page(self, cursor: str | None, limit: int) -> ExperimentPage:
        """Newest first; ``cursor`` is the previous page's ``next_cursor``."""
        async with self._database.reader() as session:
            found = await ExperimentRepository(session).page(cursor, limit + 1)
        items = [read(facts) for facts in found[:limit]]
        return ExperimentPage(items=items, next_cursor=items[-1].id if len(found) > limit else None)

    async def cancel(self, reference: str) -> ExperimentRead:
        """Ask for an end; evidence is kept. Doing it twice, or too late, changes nothing."""
        async with self._database.transaction() as session:
            repository = ExperimentRepository(session)
            digest = await resolve(session, reference)
            await repository.cancel(digest)
            return read(await repository.facts(digest))
