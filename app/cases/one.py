"""One request under every arm: what was asked, and what was seen of it in each run that counts or was void."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from app.domain.observation import RequestObservation
from app.domain.trace_request import TraceRequest


@dataclass(frozen=True, slots=True)
class SeenCase:
    """One answer; ``block`` counts from 0."""

    block: int
    arm: str
    attempt: int
    counted: bool
    run_id: UUID
    seen: RequestObservation
    score: float | None
    correct: bool | None


@dataclass(frozen=True, slots=True)
class OneCase:
    """A request of a workload, and its answers in block order, target-only's first."""

    workload: str
    request: TraceRequest
    answers: tuple[SeenCase, ...]
    scorer: str | None


def line_of(request_id: str, lines: Iterable[bytes]) -> TraceRequest | None:
    """The request among a stored trace's canonical lines; the others need not be parsed."""
    mark = f'"request_id":"{request_id}"'.encode()
    passing = iter(lines)
    next(passing, None)  # the header
    for line in passing:
        if mark in line and (found := TraceRequest.model_validate_json(line)).request_id == request_id:
            return found
    return None
