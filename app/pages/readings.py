"""What pages read and ask: the services of the other packages, bundled, and what a form may offer."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from app.comparisons.routes import ServiceDep as Comparisons
from app.comparisons.service import ComparisonService
from app.evidence.routes import ServiceDep as Evidence
from app.evidence.schemas import CapabilityRead, TraceRead
from app.evidence.service import EvidenceService
from app.experiments.routes import ServiceDep as Experiments
from app.experiments.service import ExperimentService
from app.pages.form import Choice, KnownTrace, Offer
from app.runs.routes import ServiceDep as Runs
from app.runs.service import RunService

_Entries = TypeAdapter(list[dict[str, JsonValue]])


@dataclass(frozen=True, slots=True)
class Readings:
    """The services that pages use; each opens its own transactions."""

    experiments: ExperimentService
    runs: RunService
    evidence: EvidenceService
    comparisons: ComparisonService

    async def offer(self) -> Offer:
        """What the form may offer now."""
        return offer_of(await self.evidence.capabilities(), await self.evidence.traces())


def readings(experiments: Experiments, runs: Runs, evidence: Evidence, comparisons: Comparisons) -> Readings:
    """The services of this request."""
    return Readings(experiments, runs, evidence, comparisons)


def offer_of(capabilities: Sequence[CapabilityRead], traces: Sequence[TraceRead]) -> Offer:
    """The union of what workers published; a document that is not in the published form offers nothing."""
    runtimes: dict[str, Choice] = {}
    models: dict[str, Choice] = {}
    hosts: dict[str, dict[str, JsonValue]] = {}
    for worker in capabilities:
        host = {part: worker.document.get(part) for part in ("hardware", "software")}
        for ref, entry in _entries(worker, "runtimes").items():
            runtimes[ref] = Choice(value=ref, text=f"{entry.get('name', '')}: {ref.split(' sha256:')[0]}")
            hosts[ref] = host
        for ref, entry in _entries(worker, "models").items():
            models[ref] = Choice(value=ref, text=str(entry.get("alias", ref)))
    known = tuple(KnownTrace(digest=t.digest, header=t.header) for t in traces)
    return Offer(runtimes=tuple(runtimes.values()), models=tuple(models.values()), hosts=hosts, traces=known)


def _entries(worker: CapabilityRead, part: str) -> dict[str, dict[str, JsonValue]]:
    try:
        entries = _Entries.validate_python(worker.document.get(part))
    except ValidationError:
        return {}
    return {str(entry["ref"]): entry for entry in entries if "ref" in entry}
