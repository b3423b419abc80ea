"""Builds an experiment's report from its evidence, once per committed evidence and version of the analysis.

Not once per change of state: an open page must not rebuild a report on the cores that are being measured.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from anyio import to_thread
from pydantic import JsonValue
from sqlalchemy.ext.asyncio import AsyncSession

from app.artifacts.store import ArtifactStore
from app.bundle.archive import pack
from app.bundle.contents import open_contents
from app.bundle.index import RunIndex
from app.bundle.writing import write_index
from app.comparisons.apart import computed_apart
from app.comparisons.bundling import Wish, spool
from app.comparisons.cache import KnownReport, ReportCache
from app.comparisons.repository import ReportRepository
from app.db.repository import resolve
from app.db.session import Database
from app.domain.canonical import canonical_json, canonical_model, digest
from app.domain.errors import NotFound
from app.domain.evidence import ExperimentEvidence
from app.domain.host_noise import HostNoise, host_noise
from app.domain.report import ANALYSIS_VERSION, Report, build_report, with_expiry
from app.domain.rests_on import Expiry, Standing, against_experiment, against_hosts
from app.evidence.repository import CommittedBlock, EvidenceRepository
from app.evidence.views.repository import EvidenceViews
from app.experiments.glance import glance_of
from app.figures import FIGURES, Figure, View
from app.preflight.hosts import hosts_of
from app.settings import Settings

HELD_MAX: Final = 4_000
"""Observations of an experiment that is analysed here and in memory. A larger one would keep every page waiting: it is
read from a scratch directory by a process of its own."""
SCRATCH: Final = "scratch-"

Computing = Callable[[], "Awaitable[tuple[str, KnownReport]]"]


def report_key(experiment: str, committed: Sequence[CommittedBlock]) -> str:
    """A digest over all that a report depends on."""
    blocks: JsonValue = [[block.block, block.fence] for block in committed]
    return digest(canonical_json({"experiment": experiment, "committed": blocks, "analysis": ANALYSIS_VERSION}))


@dataclass(frozen=True, slots=True)
class Bundle:
    """A packed bundle on this host's disk."""

    path: Path
    experiment: str
    root: str


class ComparisonService:
    """One per request; reports are shared through the cache."""

    def __init__(self, database: Database, cache: ReportCache, settings: Settings) -> None:
        self._database = database
        self._cache = cache
        self._settings = settings

    async def report(self, reference: str) -> Report:
        """The report as of now; interim while blocks are missing. Raises ``NotFound`` or ``EvidenceRefused``."""
        return (await self.known(reference)).report

    async def known(self, reference: str) -> KnownReport:
        """As ``report``, with its canonical JSON; two that ask at once have it computed once."""
        async with self._database.reader() as session:
            experiment = await resolve(session, reference)
            key = await _key(session, experiment)
        return await self._known(experiment, key, lambda: self._computed(experiment))

    async def ready(self, reference: str) -> KnownReport | None:
        """As ``dated``, for a page: ``None`` while it is being computed, which goes on after the page waited."""
        async with self._database.reader() as session:
            experiment = await resolve(session, reference)
            key = await _key(session, experiment)
            document = None if self._cache.get(key) else await ReportRepository(session).read(experiment, key)
        if document is not None:
            self._cache.put(key, await _parsed(document))
        compute = partial(self._known, experiment, key, partial(self._computed, experiment))
        known = await self._cache.within(key, self._settings.page_patience_s, compute)
        return None if known is None else await self._of_today(known)

    async def dated(self, reference: str, against: str | None = None) -> KnownReport:
        """As ``known``, with what it says of its own expiry at this moment: of the hosts, or of another experiment."""
        return await self._of_today(await self.known(reference), against)

    async def _of_today(self, known: KnownReport, against: str | None = None) -> KnownReport:
        expiry = await self.expiry(known.report, against)
        if expiry is None:
            return known
        return KnownReport(known.report.model_copy(update={"expiry": expiry}), with_expiry(known.document, expiry))

    async def expiry(self, report: Report, against: str | None = None) -> Expiry | None:
        """``None`` while blocks are missing and nothing is decided. Raises ``NotFound`` for an unknown experiment."""
        if against is not None:
            other = await self.report(against)
            return against_experiment(report.manifest, other.manifest, report.analysis_version, other.analysis_version)
        if report.interim:
            return None
        async with self._database.reader() as session:
            hosts = hosts_of(await EvidenceViews(session).capabilities())
        return against_hosts(report.manifest, hosts)

    async def weigh(self, experiment: str, *, wait: bool = True) -> None:
        """Have the report made, if it was not, and keep its verdicts where lists find them.

        Without ``wait`` one that takes long is there another time.
        """
        async with self._database.reader() as session:
            committed = await EvidenceRepository(session).committed(experiment)
        known = await (self.known(experiment) if wait else self.ready(experiment))
        if known is None:
            return
        async with self._database.transaction() as session:
            glance = glance_of(known.report, len(committed))
            await ReportRepository(session).note(experiment, report_key(experiment, committed), glance)

    async def expired(self, experiments: Sequence[str]) -> frozenset[str]:
        """Those of which some pin is no longer there: what their reports say was true."""
        async with self._database.reader() as session:
            hosts = hosts_of(await EvidenceViews(session).capabilities())
            manifests = await ReportRepository(session).manifests(experiments)
        return frozenset(d for d, m in manifests.items() if against_hosts(m, hosts).standing is Standing.EXPIRED)

    async def host_noise(self, report: Report) -> HostNoise | None:
        """By the newest A/A experiment on the same kind of host, runtime and target; ``None`` without one at hand."""
        async with self._database.reader() as session:
            experiment = await ReportRepository(session).newest_calibration(report.manifest)
        known = None if experiment is None else await self.ready(experiment)
        return None if known is None else host_noise(known.report)

    async def figure(self, reference: str, name: str, view: View) -> Figure:
        """A figure of that part of the report; raises ``NotFound``."""
        if name not in FIGURES:
            raise NotFound.of("figure", f"there is no figure {name[:64]}", f"choose one of {', '.join(FIGURES)}")
        report = await self.report(reference)
        view.check(report)
        return FIGURES[name](report, view)

    @asynccontextmanager
    async def bundle(self, reference: str, *, with_raw: bool) -> AsyncGenerator[Bundle]:
        """The experiment's bundle, there while the context lasts. Raises ``NotFound`` or ``EvidenceRefused``."""
        wish = Wish(ArtifactStore(self._settings.artifacts), with_raw)
        async with self._scratch() as scratch:
            members, archive = scratch / "members", scratch / "bundle.tar.zst"
            members.mkdir()
            async with self._database.reader() as session:
                experiment = await resolve(session, reference)
                key = await _key(session, experiment)
                runs = await spool(session, experiment, members, wish)
                large = await EvidenceRepository(session).offered(experiment) > HELD_MAX
            known = await self._known(experiment, key, lambda: _from_members(key, members, apart=large))
            root = await to_thread.run_sync(_packed, members, archive, known, runs)
            yield Bundle(archive, experiment, root)

    async def _known(self, experiment: str, key: str, compute: Computing) -> KnownReport:
        async with self._cache.turn(key):
            known = self._cache.get(key) or await self._stored(experiment, key, compute)
            self._cache.put(key, known)
        return known

    async def _stored(self, experiment: str, key: str, compute: Computing) -> KnownReport:
        """From Postgres; computed where it is not there, while other processes wait."""
        async with self._database.transaction() as session:
            reports = ReportRepository(session)
            document = await reports.read(experiment, key)
            if document is None:
                await reports.hold(key)
                document = await reports.read(experiment, key)
            if document is None:
                fresh, computed = await compute()
                await reports.store(experiment, fresh, computed.document)
                return computed
        return await _parsed(document)

    async def _computed(self, experiment: str) -> tuple[str, KnownReport]:
        """The report and its key, which is newer than the one asked for where a block has ended since."""
        async with self._scratch() as scratch:
            async with self._database.reader() as session:
                repository, key = EvidenceRepository(session), await _key(session, experiment)
                large = await repository.offered(experiment) > HELD_MAX
                held = None if large else await repository.load_evidence(experiment)
                if held is None:
                    members = scratch / "members"
                    members.mkdir()
                    await spool(session, experiment, members)
            if held is None:
                return await _from_members(key, scratch / "members", apart=True)
            return key, await to_thread.run_sync(_reported, held)

    @asynccontextmanager
    async def _scratch(self) -> AsyncGenerator[Path]:
        """A directory where there is room: on many hosts ``/tmp`` is memory."""
        self._settings.home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._settings.home, prefix=SCRATCH) as directory:
            yield Path(directory)


async def _key(session: AsyncSession, experiment: str) -> str:
    return report_key(experiment, await EvidenceRepository(session).committed(experiment))


async def _from_members(key: str, directory: Path, *, apart: bool) -> tuple[str, KnownReport]:
    if apart:
        return key, await _parsed(await computed_apart(directory))
    return key, await to_thread.run_sync(lambda: _reported(open_contents(directory).evidence()))


async def _parsed(document: bytes) -> KnownReport:
    return KnownReport(await to_thread.run_sync(Report.model_validate_json, document), document)


def _reported(evidence: ExperimentEvidence) -> KnownReport:
    report = build_report(evidence)
    return KnownReport(report, canonical_model(report))


def _packed(directory: Path, archive: Path, known: KnownReport, runs: tuple[RunIndex, ...]) -> str:
    report = known.report
    write_index(directory, report.experiment, known.document, report.analysis_version, runs)
    return pack(directory, archive)
