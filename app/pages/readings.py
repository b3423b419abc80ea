"""What pages read and ask: the services of the other packages, bundled, and what a form may offer."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.comparisons.routes import ServiceDep as Comparisons
from app.comparisons.service import ComparisonService
from app.evidence.routes import ServiceDep as Evidence
from app.evidence.schemas import CapabilityRead, TraceRead
from app.evidence.service import EvidenceService
from app.experiments.routes import ServiceDep as Experiments
from app.experiments.service import ExperimentService
from app.interop.routes import ImportsDep as Imports
from app.interop.service import ImportService
from app.pages.offer import KnownTrace, Offer, offer_of
from app.preflight.hosts import hosts_of
from app.preflight.routes import ServiceDep as Preflights
from app.preflight.service import PreflightService
from app.runs.routes import ServiceDep as Runs
from app.runs.service import RunService


@dataclass(frozen=True, slots=True)
class Readings:
    """The services that pages use; each opens its own transactions."""

    experiments: ExperimentService
    runs: RunService
    evidence: EvidenceService
    comparisons: ComparisonService
    preflights: PreflightService
    imports: ImportService

    async def offer(self) -> Offer:
        """What the form may offer now."""
        return published_offer(await self.evidence.capabilities(), await self.evidence.traces())


def readings(
    experiments: Experiments,
    runs: Runs,
    evidence: Evidence,
    comparisons: Comparisons,
    *,
    preflights: Preflights,
    imports: Imports,
) -> Readings:
    """The services of this request."""
    return Readings(experiments, runs, evidence, comparisons, preflights, imports)


def published_offer(capabilities: Sequence[CapabilityRead], traces: Sequence[TraceRead]) -> Offer:
    """The union of what workers published; a document that is not in the published form offers nothing."""
    known = [KnownTrace(digest=t.digest, header=t.header) for t in traces]
    return offer_of(hosts_of(capabilities).values(), known)
