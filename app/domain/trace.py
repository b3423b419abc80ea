"""A workload as a frozen trace: JSON Lines, a header and then one request a line.

The sha256 of the bytes is the trace's identity. Each request belongs to one load point
(or to the warm-up), so prompts are disjoint between loads; its arrival offset is a frozen
integer, never a seed. Every arm replays the same bytes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from app.domain.canonical import digest
from app.domain.errors import FieldProblem
from app.domain.manifest import Manifest
from app.domain.scoring.registry import lack_of
from app.domain.scoring.terms import Quality
from app.domain.trace_header import TRACE_FORMAT, TraceHeader, TraceLoad
from app.domain.trace_request import TraceRequest
from app.domain.trace_scan import LINE_BYTES_MAX, TraceScan, canonical_line, split_lines
from app.domain.trace_summary import TraceSummary
from app.domain.vocabulary import WARMUP

__all__ = [
    "LINE_BYTES_MAX",
    "TRACE_FORMAT",
    "Trace",
    "TraceHeader",
    "TraceLoad",
    "TraceRequest",
    "check_fit",
    "fits",
    "parse_trace",
]

CHUNK_BYTES = 1 << 20
FIT_PROBLEMS_MAX = 50


class Trace(BaseModel):
    """A parsed trace. ``digest`` is the sha256 of the canonical bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    header: TraceHeader
    requests: tuple[TraceRequest, ...]

    def of_load(self, load: str) -> tuple[TraceRequest, ...]:
        """The requests of one load point (or ``warmup``), in due order."""
        return tuple(sorted((r for r in self.requests if r.load == load), key=lambda r: r.due_ns))

    def encode(self) -> bytes:
        """Canonical JSON Lines; the bytes that are stored, hashed and replayed."""
        return b"".join(canonical_line(document) + b"\n" for document in (self.header, *self.requests))

    @property
    def digest(self) -> str:
        """The content address, 64 hex digits."""
        return digest(self.encode())


class Requests(Protocol):
    """A header and its requests, parsed or still to be read: what a check needs of a trace."""

    @property
    def header(self) -> TraceHeader: ...
    @property
    def requests(self) -> Iterable[TraceRequest]: ...


@dataclass(frozen=True, slots=True)
class RequestStream:
    """A header with requests that pass by once: the way to check or replay a trace too large to hold."""

    header: TraceHeader
    requests: Iterator[TraceRequest]


def parse_trace(content: bytes) -> Trace:
    """Read a trace; raises ``TraceRefused`` naming the line of each problem."""
    scan = TraceScan()
    chunks = (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))
    requests = tuple(r for line in split_lines(chunks) if isinstance(r := scan.take(line), TraceRequest))
    return Trace(header=scan.summary().header, requests=requests)


def read_requests(lines: Iterable[bytes], *loads: str) -> RequestStream:
    """The requests of ``loads`` (all, where none is named) from lines that were checked when they were stored."""
    passing = iter(lines)
    header = TraceHeader.model_validate_json(next(passing))
    wanted = {f'"load":"{load}"'.encode() for load in loads}  # canonical lines: others need not be parsed
    kept = (line for line in passing if not wanted or any(mark in line for mark in wanted))
    requests = (TraceRequest.model_validate_json(line) for line in kept)
    return RequestStream(header, (r for r in requests if not loads or r.load in loads))


_NEEDS_PARSER = ("tool_choice:auto", "tool_choice:named", "tool_choice:required")
"""Features of a summary; vLLM 0.32 refuses even a named function without a parser."""


def fits(manifest: Manifest, summary: TraceSummary) -> bool:
    """Whether a summary alone shows that ``check_fit`` finds nothing; if not, its requests have to be looked at."""
    asked = set(summary.features) & {"min_p", "logit_bias", *_NEEDS_PARSER}
    scored = any(w.trace == summary.digest and w.quality is not None for w in manifest.workloads)
    loads = [summary.header.load(load.name) for load in manifest.loads]
    offered = [(there.rate_rps, there.clients) if there else None for there in loads]
    wanted = [(load.rate_rps, load.clients) for load in manifest.loads]
    longest = max((part.longest for part in summary.loads.values()), default=0)
    return not asked and not scored and offered == wanted and longest <= manifest.serving.max_model_len


def check_fit(manifest: Manifest, workload: str, trace: Requests) -> Iterator[FieldProblem]:
    """What keeps ``trace`` from being replayed as ``manifest`` says."""
    field = f"workloads[{[w.name for w in manifest.workloads].index(workload)}].trace"
    for load in manifest.loads:
        there = trace.header.load(load.name)
        if there is None or (there.rate_rps, there.clients) != (load.rate_rps, load.clients):
            stated = {p.name: p.offered for p in trace.header.loads}
            yield FieldProblem(
                field,
                f"load {load.name} at {load.offered} is not in the trace ({stated})",
                "make the trace with the manifest's loads, or name the trace's loads in the manifest",
            )
    measured = {load.name for load in manifest.loads} | {WARMUP}
    quality = next(w.quality for w in manifest.workloads if w.name == workload)
    requests = (r for r in trace.requests if r.load in measured)
    misfits = (problem for r in requests for problem in _problems(manifest, quality, field, r))
    yield from islice(misfits, FIT_PROBLEMS_MAX)


def _problems(manifest: Manifest, quality: Quality | None, field: str, request: TraceRequest) -> Iterator[FieldProblem]:
    yield from (FieldProblem(field, *words) for words in _misfits(manifest, request))
    lack = lack_of(request.question, quality) if quality is not None and request.load != WARMUP else None
    if lack is not None and quality is not None:
        message = f"{quality.scorer} cannot score request {request.request_id}: it has no {lack}"
        remedy = "add it to each measured request of the trace, choose another scorer, or leave quality out"
        yield FieldProblem(f"{field.rpartition('.')[0]}.quality.scorer", message, remedy)


def _misfits(manifest: Manifest, request: TraceRequest) -> Iterator[tuple[str, str]]:
    """(message, remedy) of each reason why the engine would refuse the request, or do something else."""
    who, limit = f"request {request.request_id}", manifest.serving.max_model_len
    length = request.prompt_tokens or 1  # of a text only the engine knows the length; it has at least one token
    if length + request.max_tokens > limit:
        together = f"{length} prompt tokens + max_tokens {request.max_tokens} = {length + request.max_tokens}"
        message = f"{who}: {together}, longer than serving.max_model_len {limit}"
        yield message, "raise serving.max_model_len or shorten the request"
    if request.sampling and (request.sampling.min_p or request.sampling.logit_bias):
        yield f"{who}: vLLM takes neither min_p nor logit_bias with speculation", "leave them out of the trace"
    if request.tools and request.tool_choice != "none":
        message = f"{who}: vLLM answers with tools only where --tool-call-parser is set, which no launch does"
        yield message, 'set tool_choice to "none", or leave the tools out'
