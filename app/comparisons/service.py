"""Builds an experiment's report from its evidence, once per committed evidence and version of the analysis.

Not once per change of state: an open page must not rebuild a report on the cores that are being measured.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

from anyio import to_thread

from app.bundle import pack
from app.db.repository import resolve
from app.db.session import Database
from app.domain.errors import NotFound
from app.domain.report import ANALYSIS_VERSION, Report, build_report
from app.evidence.repository import CommittedBlock, EvidenceRepository
from app.figures import FIGURES

REPORTS_KEPT = 32


@dataclass(frozen=True, slots=True)
class ReportKey:
    """What a report depends on."""

    experiment: str
    committed: tuple[CommittedBlock, ...]
    analysis_version: str


class ReportCache:
    """The reports used last, in memory; a report is a pure function of its key's evidence."""

    def __init__(self, kept: int = REPORTS_KEPT) -> None:
        self._kept = kept
        self._reports: OrderedDict[ReportKey, Report] = OrderedDict()

    def get(self, key: ReportKey) -> Report | None:
        """The report of that key, if it is still here."""
        if key in self._reports:
            self._reports.move_to_end(key)
        return self._reports.get(key)

    def put(self, key: ReportKey, report: Report) -> None:
        """Keep a report and forget the one unused longest."""
        self._reports[key] = report
        while len(self._reports) > self._kept:
            self._reports.popitem(last=False)


class ComparisonService:
    """One per request; reports are shared through the cache."""

    def __init__(self, database: Database, cache: ReportCache) -> None:
        self._database = database
        self._cache = cache

    async def report(self, reference: str) -> Report:
        """The report as of now; interim while blocks are missing. Raises ``NotFound`` or ``EvidenceRefused``."""
        async with self._database.reader() as session:
            digest = await resolve(session, reference)
            repository = EvidenceRepository(session)
            key = ReportKey(digest, await repository.committed(digest), ANALYSIS_VERSION)
            known = self._cache.get(key)
            if known is not None:
                return known
            evidence = await repository.load_evidence(digest)
        report = await to_thread.run_sync(build_report, evidence)
        self._cache.put(key, report)
        return report

    async def figure(self, reference: str, name: str) -> bytes:
        """A figure as Plotly's JSON; raises ``NotFound``."""
        if name not in FIGURES:
            raise NotFound.of("figure", f"there is no figure {name[:64]}", f"choose one of {', '.join(FIGURES)}")
        report = await self.report(reference)
        figure = await to_thread.run_sync(FIGURES[name], report)
        return cast("str", figure.to_json()).encode()

    async def bundle(self, reference: str) -> tuple[str, bytes]:
        """The experiment's digest and its bundle; raises ``NotFound`` or ``EvidenceRefused``."""
        async with self._database.reader() as session:
            digest = await resolve(session, reference)
            repository = EvidenceRepository(session)
            evidence = await repository.load_evidence(digest)
            traces = {w.trace: await repository.read_trace(w.trace) for w in evidence.manifest.workloads}
        report = await to_thread.run_sync(build_report, evidence)
        return digest, await to_thread.run_sync(pack, evidence, traces, report)
