"""Decides about experiments: whether one may be registered, and when workers are woken. Opens the transactions."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.audit.repository import record
from app.db.acting import actor, project_of_actor
from app.db.repository import resolve
from app.db.session import Database
from app.domain.access import TooManyRequests
from app.domain.errors import IllegalTransition, ManifestRefused
from app.domain.manifest import Manifest
from app.domain.preflight import problems_of
from app.experiments.listing.repository import ListingRepository
from app.experiments.listing.search import Search
from app.experiments.ownership.repository import share_traces, standing
from app.experiments.progress import read
from app.experiments.repository import ExperimentRepository
from app.experiments.schemas import OWNER, PRIORITY, ExperimentPage, ExperimentRead, Shelving
from app.experiments.waiting import nobody_for
from app.preflight.service import examine
from app.queue import wake
from app.settings import Settings


class TakenElsewhere(IllegalTransition):
    """A manifest is one experiment, and that is another project's."""

    title = "The manifest is registered elsewhere"


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
            await self._require_ours(session, manifest, created=created)
            problems = problems_of((await examine(session, manifest)).checks) if created else []
            if problems:
                raise ManifestRefused(*problems)
            experiment = read(await repository.facts(manifest.digest))
        if created:
            wake(self._settings, manifest.hardware.accelerator)
        return experiment, created

    async def _require_ours(self, session: AsyncSession, manifest: Manifest, *, created: bool) -> None:
        """Raise ``TakenElsewhere``, or ``TooManyRequests`` where the project's quota is used up."""
        digest = manifest.digest
        unfinished, here = await standing(session, project_of_actor(), digest)
        if not here:
            remedy = "give yours another name: the same manifest is the same experiment, and belongs to one project"
            raise TakenElsewhere.of("(body)", "another project has registered this very manifest", remedy)
        if not created:
            return
        if unfinished > self._settings.project_queue_max:
            message = f"the project has {unfinished - 1} unfinished experiments, which is its quota"
            raise TooManyRequests.of("(quota)", message, "wait until some have ended, or cancel some")
        if actor().sees_only is None:  # others of the project must see what an administrator has chosen
            await share_traces(session, project_of_actor(), [workload.trace for workload in manifest.workloads])
        await record(session, "experiment.submit", digest)

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

    async def nobody_for(self, manifest: Manifest) -> str | None:
        """Why nobody would take its blocks now; ``None`` where a worker is there, however busy."""
        async with self._database.reader() as session:
            return nobody_for(manifest.hardware.accelerator, await ExperimentRepository(session).supply())

    async def page(self, search: Search, limit: int) -> ExperimentPage:
        """As many of those asked for; raises ``NotFound`` for a cursor that points to nothing."""
        async with self._database.reader() as session:
            listing = ListingRepository(session)
            place = await listing.page(search, limit)
            found = await ExperimentRepository(session).listed(place.digests)
            total = await listing.count(search)
            unweighed = 0 if search.word is None else len(await listing.unweighed(search))
        ends = (found[0].digest, found[-1].digest) if found else (None, None)
        return ExperimentPage(
            items=[read(facts) for facts in found],
            previous_cursor=ends[0] if place.earlier else None,
            next_cursor=ends[1] if place.later else None,
            total=total,
            unweighed=unweighed,
        )

    async def unweighed(self, search: Search, limit: int) -> Sequence[str]:
        """Some of those whose verdicts a search by verdict does not know."""
        async with self._database.reader() as session:
            return await ListingRepository(session).unweighed(search, limit)

    async def offered(self) -> tuple[Sequence[str], Sequence[str]]:
        """Owners and tags that there are."""
        async with self._database.reader() as session:
            listing = ListingRepository(session)
            return await listing.owners(), await listing.tags()

    async def shelve(self, reference: str, wish: Shelving) -> ExperimentRead:
        """Tag it, put it away or take it out again; nothing else of it changes. Raises ``NotFound``."""
        async with self._database.transaction() as session:
            repository = ExperimentRepository(session)
            digest = await resolve(session, reference)
            await repository.shelve(digest, wish.tags, wish.archived)
            return read(await repository.facts(digest))

    async def cancel(self, reference: str) -> ExperimentRead:
        """Ask for an end; evidence is kept. Doing it twice, or too late, changes nothing."""
        async with self._database.transaction() as session:
            repository = ExperimentRepository(session)
            digest = await resolve(session, reference)
            await repository.cancel(digest)
            await record(session, "experiment.cancel", digest)
            return read(await repository.facts(digest))
