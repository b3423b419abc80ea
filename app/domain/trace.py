"""A workload as a frozen trace: JSON Lines, a header and then one request a line.

The sha256 of the bytes is the trace's identity. Each request belongs to one load point
(or to the warm-up), so prompts are disjoint between loads; its arrival offset is a frozen
integer, never a seed. Every arm replays the same bytes.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.domain.canonical import canonical_json, digest
from app.domain.errors import FieldProblem, TraceRefused
from app.domain.manifest import Manifest, field_problems
from app.domain.vocabulary import WARMUP, Name

TRACE_FORMAT = "verdraft/trace/v0"
LINE_BYTES_MAX = 1 << 20


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TraceLoad(_Frozen):
    """One load point's part of the trace."""

    name: Name
    rate_rps: Annotated[float, Field(gt=0)]
    requests: Annotated[int, Field(ge=1)]
    duration_ns: Annotated[int, Field(gt=0)]


class TraceHeader(_Frozen):
    """The first line. ``content_valid`` is false where prompts are not real text."""

    format: Literal["verdraft/trace/v0"] = TRACE_FORMAT
    name: Name
    description: str
    source: str
    content_valid: bool
    warmup_requests: Annotated[int, Field(ge=0)]
    loads: Annotated[tuple[TraceLoad, ...], Field(min_length=1)]


class TraceRequest(_Frozen):
    """One request. ``due_ns`` counts from the start of its load point's replay."""

    request_id: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
    load: Name
    due_ns: Annotated[int, Field(ge=0)]
    prompt_token_ids: Annotated[tuple[int, ...], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    stop: tuple[str, ...] = ()
    strata: dict[Name, Name]
    """Dimension → label, such as ``{"task": "copy", "input": "short"}``; ``task`` is required."""
    prompt_text: str | None = None
    reference: str | None = None
    """The right answer, where the task has one; used by scorers, never sent."""


class Trace(_Frozen):
    """A parsed trace. ``digest`` is the sha256 of the canonical bytes."""

    header: TraceHeader
    requests: tuple[TraceRequest, ...]

    def of_load(self, load: str) -> tuple[TraceRequest, ...]:
        """The requests of one load point (or ``warmup``), in due order."""
        return tuple(sorted((r for r in self.requests if r.load == load), key=lambda r: r.due_ns))

    def encode(self) -> bytes:
        """Canonical JSON Lines; the bytes that are stored, hashed and replayed."""
        lines = [canonical_json(self.header.model_dump(mode="json"))]
        lines += [canonical_json(r.model_dump(mode="json", exclude_defaults=True)) for r in self.requests]
        return b"\n".join(lines) + b"\n"

    @property
    def digest(self) -> str:
        """The content address, 64 hex digits."""
        return digest(self.encode())


def parse_trace(content: bytes) -> Trace:
    """Read a trace; raises ``TraceRefused`` naming the line of each problem."""
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines[1:]:
        raise TraceRefused.of("trace", "the workload is empty", "give a header line and at least one request")
    problems: list[FieldProblem] = []
    header = _parse(TraceHeader, lines[0], 1, problems)
    requests = [_parse(TraceRequest, line, n, problems) for n, line in enumerate(lines[1:], 2)]
    if problems or header is None:
        raise TraceRefused(*problems[:50])
    trace = Trace(header=header, requests=tuple(r for r in requests if r is not None))
    problems.extend(_inconsistencies(trace))
    if problems:
        raise TraceRefused(*problems[:50])
    return trace


def check_fit(manifest: Manifest, workload: str, trace: Trace) -> Iterator[FieldProblem]:
    """What keeps ``trace`` from being replayed as ``manifest`` says."""
    field = f"workloads[{[w.name for w in manifest.workloads].index(workload)}].trace"
    in_trace = {p.name: p.rate_rps for p in trace.header.loads}
    for load in manifest.loads:
        if in_trace.get(load.name) != load.rate_rps:
            yield FieldProblem(
                field,
                f"load {load.name} at {load.rate_rps} requests/s is not in the trace ({in_trace})",
                "make the trace with the manifest's loads, or name the trace's loads in the manifest",
            )
    limit = manifest.serving.max_model_len
    for request in trace.requests:
        total = len(request.prompt_token_ids) + request.max_tokens
        if total > limit:
            yield FieldProblem(
                field,
                f"request {request.request_id}: {len(request.prompt_token_ids)} prompt tokens + max_tokens "
                f"{request.max_tokens} = {total}, longer than serving.max_model_len {limit}",
                "raise serving.max_model_len or shorten the request",
            )


def _inconsistencies(trace: Trace) -> Iterable[FieldProblem]:
    ids = [r.request_id for r in trace.requests]
    if len(set(ids)) < len(ids):
        yield FieldProblem("request_id", "a request id is used twice", "make each request id unique in the trace")
    counts = {p.name: p.requests for p in trace.header.loads} | {WARMUP: trace.header.warmup_requests}
    for load, stated in counts.items():
        found = sum(r.load == load for r in trace.requests)
        if found != stated:
            yield FieldProblem("loads", f"load {load}: header says {stated} requests, the trace has {found}", "fix it")
    for request in trace.requests:
        if request.load not in counts:
            yield FieldProblem(
                "load", f"request {request.request_id}: load {request.load} is not in the header", "add it"
            )
        if "task" not in request.strata:
            yield FieldProblem("strata", f"request {request.request_id} has no task label", 'add "task" to strata')


L = TypeVar("L", TraceHeader, TraceRequest)


def _parse(model: type[L], line: bytes, number: int, problems: list[FieldProblem]) -> L | None:
    if len(line) > LINE_BYTES_MAX:
        problems.append(
            FieldProblem(f"line {number}", f"longer than {LINE_BYTES_MAX} bytes", "split or drop the request")
        )
        return None
    try:
        return model.model_validate(json.loads(line))
    except ValidationError as error:
        problems.extend(FieldProblem(f"line {number}: {p.field}", p.message, p.remedy) for p in field_problems(error))
    except (ValueError, RecursionError):
        problems.append(FieldProblem(f"line {number}", "not valid JSON", "each line must be one JSON object"))
    return None
