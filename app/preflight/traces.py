"""The manifest's traces: whether they are stored and fit, their headers, and what their requests ask for.

A summary made when a trace was stored mostly answers without a line of it being read.
"""

from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import NotFound
from app.domain.manifest import Manifest
from app.domain.preflight import TRACES, Check
from app.domain.preflight.outcome import Topic
from app.domain.trace import Requests, TraceHeader, check_fit, fits
from app.domain.trace_summary import TraceSummary, features
from app.evidence.repository import EvidenceRepository
from app.evidence.views.repository import EvidenceViews


@dataclass(frozen=True, slots=True)
class TraceLook:
    """What was seen. ``headers`` and ``requested`` go by the workload's name."""

    checks: list[Check] = field(default_factory=list[Check])
    headers: dict[str, TraceHeader] = field(default_factory=dict[str, TraceHeader])
    requested: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


async def look_at_traces(session: AsyncSession, manifest: Manifest) -> TraceLook:
    """Look at each trace in turn; one that is not stored is a failed check."""
    look = TraceLook()
    for index, workload in enumerate(manifest.workloads):
        topic = Topic(TRACES, None, f"workloads[{index}].trace")
        try:
            summary = await EvidenceViews(session).trace_summary(workload.trace)
        except NotFound as unknown:
            look.checks.extend(topic.fails(p.message, p.remedy) for p in unknown.problems)
            continue
        if summary is not None and fits(manifest, summary):
            _fitting(look, topic, workload.name, summary)
        else:
            trace = await EvidenceRepository(session).open_trace(workload.trace)
            _read(look, topic, manifest, workload.name, trace)
    return look


def _fitting(look: TraceLook, topic: Topic, workload: str, summary: TraceSummary) -> None:
    look.headers[workload] = summary.header
    look.requested[workload] = frozenset(summary.features)
    look.checks.append(topic.passes(f"{workload}: {summary.requests:,} requests with every load, and all fit"))


def _read(look: TraceLook, topic: Topic, manifest: Manifest, workload: str, trace: Requests) -> None:
    look.headers[workload] = trace.header
    look.requested[workload] = frozenset(name for request in trace.requests for name in features(request))
    found = [topic.at(p.field).fails(p.message, p.remedy) for p in check_fit(manifest, workload, trace)]
    look.checks.extend(found or [topic.passes(f"{workload} has every load, and all its requests fit")])
