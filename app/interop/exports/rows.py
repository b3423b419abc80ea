"""One offered request as a flat row: where it was measured, everything the client saw, and what follows from that."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from app.domain.errors import EvidenceRefused
from app.domain.evidence import RunEvidence
from app.domain.latency import (
    e2e_from_sent_ns,
    e2e_ns,
    itl_chunk_ns,
    lateness_ns,
    tpot_ns,
    ttft_from_sent_ns,
    ttft_ns,
)
from app.domain.observation import RequestObservation, SpeculationCounts
from app.interop.exports.outline import Outline

Cell = str | int | float | bool | None
Measure = Callable[[RequestObservation], float | None]
OfGaps = Callable[[RequestObservation, tuple[int, ...]], float | None]

PLACE = ("experiment", "block", "arm", "workload", "load", "attempt", "run_state", "run_failure", "counted")
ARRAYS = ("chunk_ns", "chunk_tokens", "token_ids", "logprobs")
SCALARS = tuple(name for name in RequestObservation.model_fields if name not in {"speculation", *ARRAYS})
SPECULATION_SCALARS = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
SPECULATION_ARRAYS = tuple(name for name in SpeculationCounts.model_fields if name not in SPECULATION_SCALARS)


def _token_mean(observation: RequestObservation, gaps_ns: tuple[int, ...]) -> float | None:
    """The mean of ``latency.itl_token_ns``, without its samples: a foreign file may claim any number of them."""
    tokens = observation.chunk_tokens
    known = len(tokens) == len(observation.chunk_ns) and min(tokens, default=0) > 0
    return sum(gaps_ns) / sum(tokens[1:]) if known and gaps_ns else None


_OF_REQUEST: dict[str, Measure] = {
    "lateness_ns": lateness_ns,
    "ttft_ns": ttft_ns,
    "ttft_from_sent_ns": ttft_from_sent_ns,
    "e2e_ns": e2e_ns,
    "e2e_from_sent_ns": e2e_from_sent_ns,
    "tpot_ns": tpot_ns,
}
_OF_GAPS: dict[str, OfGaps] = {
    "itl_chunk_mean_ns": lambda _, gaps: sum(gaps) / len(gaps) if gaps else None,
    "itl_chunk_max_ns": lambda _, gaps: max(gaps, default=None),
    "itl_token_mean_ns": _token_mean,
}
DERIVED = (*_OF_REQUEST, *_OF_GAPS)
"""Latencies by the formulas of ``docs/metrics.md``; a list of intervals as its mean and its longest."""
IMPOSSIBLE = "impossible"
"""Why a derived cell is empty although its times are there: they contradict each other."""


class Place(NamedTuple):
    """The part of a row that all requests of a run share, in the order of ``PLACE``."""

    experiment: str
    block: int
    arm: str
    workload: str
    load: str
    attempt: int
    run_state: str
    run_failure: str | None
    counted: bool


def exact(observation: RequestObservation) -> RequestObservation:
    """The observation with tuples in it: one from a large bundle holds its numbers in compact arrays."""
    compact = {name: tuple(value) for name in ARRAYS if not isinstance(value := getattr(observation, name), tuple)}
    return observation.model_copy(update=compact) if compact else observation


def place_of(outline: Outline, run: RunEvidence) -> Place:
    """Where the requests of a run were measured, and whether they count."""
    failure = None if run.failure is None else f"{run.failure.failure_class}: {run.failure.message}"
    counted = outline.counts(run)
    where = (outline.experiment, run.block, run.arm, run.workload, run.load, run.attempt)
    return Place(*where, str(run.state), failure, counted)


def derived_cells(observation: RequestObservation) -> dict[str, Cell]:
    """Every derived quantity, and in ``impossible`` what contradicts itself."""
    cells: dict[str, Cell] = dict.fromkeys(DERIVED)
    flaws: list[str] = []
    for name, measure in _OF_REQUEST.items():
        try:
            cells[name] = measure(observation)
        except EvidenceRefused as error:
            flaws.append(error.problems[0].message)
    try:
        gaps = itl_chunk_ns(observation)
        cells |= {name: measure(observation, gaps) for name, measure in _OF_GAPS.items()}
    except EvidenceRefused as error:
        flaws.append(error.problems[0].message)
    return {**cells, IMPOSSIBLE: "; ".join(dict.fromkeys(flaws)) or None}


def speculation_cells(observation: RequestObservation) -> dict[str, Cell]:
    """What was drafted and accepted; all empty where the engine told nothing."""
    told = observation.speculation
    names = (*SPECULATION_SCALARS, "num_rejected_draft_tokens")
    if told is None:
        return dict.fromkeys(names)
    drafted, accepted = told.num_draft_tokens, told.num_accepted_draft_tokens
    return dict(zip(names, (told.num_spec_steps, drafted, accepted, drafted - accepted), strict=True))


def strata_cells(outline: Outline, run: RunEvidence, request_id: str) -> Iterator[tuple[str, str | None]]:
    """``stratum_<dimension>`` of one request, over all dimensions of the experiment."""
    labels = outline.strata(run.workload).get(request_id, {})
    return ((f"stratum_{dimension}", labels.get(dimension)) for dimension in outline.dimensions)
