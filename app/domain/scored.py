"""Which answers of a run are scored, and their scores by the pure scorers.

The sample is declared beforehand. The digests of the requests' ids draw it, so that it follows no order of the trace:
a trace may begin with one kind of request.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.domain.canonical import digest
from app.domain.evidence import RequestLabels, RunEvidence
from app.domain.observation import RequestObservation
from app.domain.scoring.question import Question
from app.domain.scoring.registry import score_of
from app.domain.scoring.terms import Quality
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import Outcome

ROUNDING: Final = 1e-9
"""Sums of floats may miss a threshold by their last bit."""


def sample_of(quality: Quality | None, requests: Iterable[RequestLabels | TraceRequest]) -> frozenset[str] | None:
    """The scored ones of a load point's requests; ``None``: all."""
    if quality is None or quality.samples is None:
        return None
    ids = sorted((request.request_id for request in requests), key=lambda name: digest(name.encode()))
    return frozenset(ids[: quality.samples])


def questions_of(requests: Sequence[TraceRequest], quality: Quality) -> dict[str, Question]:
    """The questions of a load point's sample, by request id."""
    sample = sample_of(quality, requests)
    return {r.request_id: r.question for r in requests if sample is None or r.request_id in sample}


def complete(observations: Iterable[RequestObservation], sample: Iterable[str]) -> list[RequestObservation]:
    """The answers that are there to be scored."""
    asked = frozenset(sample)
    return [o for o in observations if o.outcome is Outcome.SUCCESS and o.request_id in asked]


def scores_of(
    quality: Quality, questions: Mapping[str, Question], observations: Iterable[RequestObservation]
) -> dict[str, float]:
    """Request id → score, by a pure scorer."""
    return {o.request_id: score_of(o.text, questions[o.request_id], quality) for o in complete(observations, questions)}


def is_correct(run: RunEvidence, request_id: str, quality: Quality) -> bool:
    """Whether the run's answer to the request was scored and is correct; an answer without a score is not."""
    return run.scores.get(request_id, -1.0) >= quality.correct_from - ROUNDING
