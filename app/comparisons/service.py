"""Builds an experiment's report from its evidence, once per committed evidence and version of the analysis.

Not once per change of state: an open page must not rebuild a report on the cores that are being measured.
"""

from asyncio import Lock
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast
from weakref import WeakValueDictionary

from anyio import to_thread
from pydantic import JsonValue
from sqlalchemy.ext.asyncio import AsyncSession

from app.artifacts.store import ArtifactStore
from app.bundle.archive import pack
from app.bundle.contents import open_contents
from app.bundle.index import RunIndex
from app.bundle.writing import write_index
from app.comparisons.bundling import Wish, spool
from app.comparisons.repository import ReportRepository
from app.db.repository import resolve
from app.db.session import Database
from app.domain.canonical import canonical_json, canonical_model, digest
from app.domain.errors import NotFound
from app.domain.evidence import ExperimentEvidence
from app.domain.host_noise import HostNoise, host_noise
from app.domain.report import ANALYSIS_VERSION, Report, build_report, with_expiry
from app.domain.rests_on import Expiry, against_experiment, against_hosts
from app.evidence.repository import CommittedBlock, EvidenceRepository
from app.evidence.views.repository import EvidenceViews
from app.figures import FIGURES
from app.preflight.hosts import hosts_of
from app.settings import Settings

REPORTS_KEPT: Final = 32
HELD_MAX: Final = 60_000
"""Observations of an experiment that is analysed in memory; a larger one is read from a scratch directory as needed."""
SCRATCH: Final = "scratch-"

Computing = Callable[[], "Awaitable[tuple[str, KnownReport]]"]


@dataclass(frozen=True, slots=True)
class KnownReport:
    """A report and its canonical JSON."""

    report: Report
    document: bytes


def report_key(experiment: str, committed: Sequence[CommittedBlock]) -> str:
    """A digest over all that a report depends on."""
    blocks: JsonValue = [[block.block, block.fence] for block in committed]
    return digest(canonical_json({"experiment": experiment, "committed": blocks, "analysis": ANALYSIS_VERSION}))


class ReportCache:
    """The reports used last, in memory before those in Postgres, and who computes one at present."""

    def __init__(self, kept: int = REPORTS_KEPT) -> None:
        self._kept = kept
        self._reports: OrderedDict[str, KnownReport] = OrderedDict()
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def turn(self, key: str) -> Lock:
        """Whoever holds it may look for the report in Postgres or compute it; the others wait for the result."""
        return self._turns.setdefault(key, Lock())

    def get(self, key: str) -> KnownReport | None:
        """The report of that key, if it is still here."""
        if key in self._reports:
            self._reports.move_to_end(key)
        return self._reports.get(key)

    def put(self, key: str, report: KnownReport) -> None:
        """Keep a report and forget the one unused longest."""
        self._reports[key] = report
        while len(self._reports) > self._kept:
            self._reports.popitem(last=False)


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

    async def dated(self, reference: str, against: str | None = None) -> KnownReport:
        """As ``known``, with what it says of its own expiry at this moment: of the hosts, or of another experiment."""
        known = await self.known(reference)
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

    async def host_noise(self, report: Report) -> HostNoise | None:
        """By the newest A/A experiment on the same kind of host, runtime and target; ``None`` without one."""
        async with self._database.reader() as session:
            experiment = await ReportRepository(session).newest_calibration(report.manifest)
        return None if experiment is None else host_noise(await self.report(experiment))

    async def figure(self, reference: str, name: str) -> bytes:
        """A figure as Plotly's JSON; raises ``NotFound``."""
        if name not in FIGURES:
            raise NotFound.of("figure", f"there is no figure {name[:64]}", f"choose one of {', '.join(FIGURES)}")
        report = await self.report(reference)
        figure = await to_thread.run_sync(FIGURES[name], report)
        return cast("str", figure.to_json()).encode()

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
            known = await self._known(experiment, key, lambda: _from_members(key, members))
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
        return KnownReport(await to_thread.run_sync(Report.model_validate_json, document), document)

    async def _computed(self, experiment: str) -> tuple[str, KnownReport]:
        """The report and its key, which is newer than the one asked for where a block has ended since."""
        async with self._scratch() as scratch:
            async with self._database.reader() as session:
                repository, key = EvidenceRepository(session), await _key(session, experiment)
                large = await repository.offered(experiment) > HELD_MAX
                held = None if large else await repository.load_evidence(experiment)
                if held is None:
                    await spool(session, experiment, scratch)
            if held is None:
                return await _from_members(key, scratch)
            return key, await to_thread.run_sync(_reported, held)

    @asynccontextmanager
    async def _scratch(self) -> AsyncGenerator[Path]:
        """A directory where there is room: on many hosts ``/tmp`` is memory."""
        self._settings.home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._settings.home, prefix=SCRATCH) as directory:
            yield Path(directory)


async def _key(session: AsyncSession, experiment: str) -> str:
    return report_key(experiment, await EvidenceRepository(session).committed(experiment))


async def _from_members(key: str, directory: Path) -> tuple[str, KnownReport]:
    return key, await to_thread.run_sync(lambda: _reported(open_contents(directory).evidence()))


def _reported(evidence: ExperimentEvidence) -> KnownReport:
    report = build_report(evidence)
    return KnownReport(report, canonical_model(report))


def _packed(directory: Path, archive: Path, known: KnownReport, runs: tuple[RunIndex, ...]) -> str:
    report = known.report
    write_index(directory, report.experiment, known.document, report.analysis_version, runs)
    return pack(directory, archive)
