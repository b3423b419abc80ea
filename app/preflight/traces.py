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
from app.domain.trace_summary import Tally, TraceSummary
from app.evidence.repository import EvidenceRepository
from app.evidence.views.repository import EvidenceViews


@dataclass(frozen=True, slots=True)
class TraceLook:
    """What was seen. ``headers``, ``requested`` and ``answers`` go by the workload's name."""

    checks: list[Check] = field(default_factory=list[Check])
    headers: dict[str, TraceHeader] = field(default_factory=dict[str, TraceHeader])
    requested: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    answers: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Of each load, the mean of ``max_tokens``."""


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
            _note(look, workload.name, summary or _tallied(trace, workload.trace))
            look.checks.extend(_fit(topic, manifest, workload.name, trace))
    return look


def _fitting(look: TraceLook, topic: Topic, workload: str, summary: TraceSummary) -> None:
    _note(look, workload, summary)
    look.checks.append(topic.passes(f"{workload}: {summary.requests:,} requests with every load, and all fit"))


def _fit(topic: Topic, manifest: Manifest, workload: str, trace: Requests) -> list[Check]:
    found = [topic.at(p.field).fails(p.message, p.remedy) for p in check_fit(manifest, workload, trace)]
    return found or [topic.passes(f"{workload} has every load, and all its requests fit")]


def _tallied(trace: Requests, digest: str) -> TraceSummary:
    """What a summary would say of a trace that was stored before summaries were made."""
    tally = Tally(trace.header)
    for request in trace.requests:
        tally.add(request)
    return tally.summary(digest=digest, size=0)


def _note(look: TraceLook, workload: str, summary: TraceSummary) -> None:
    look.headers[workload] = summary.header
    look.requested[workload] = frozenset(summary.features)
    look.answers[workload] = {name: part.max_tokens / part.requests for name, part in summary.loads.items()}
