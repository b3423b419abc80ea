"""Whether a run's queue grew: offered against completed, and backlog (method A10).

A growing queue is never called throughput; a run too short to tell says so.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from app.domain.condition import Condition, expand
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.latency import e2e_ns
from app.domain.observation import RequestObservation
from app.domain.pairing import CompleteBlocks
from app.domain.vocabulary import NS_PER_S, Outcome, Saturation

BACKLOG_GROWTH_MAX = 0.02
"""Slope of the in-flight count as a share of the offered rate."""
COMPLETION_MIN = 0.97
BACKLOG_MIN = 12
"""Requests by which the backlog must grow in all: so many pile up by chance in a stable queue of few arrivals."""
WINDOW_FACTOR = 50
"""The window must last this many service times."""
POINTS_MAX = 600


def saturation_of(observations: Sequence[RequestObservation], *, service_ns: float | None) -> Saturation:
    """Classify one run; the window runs from the first due time to the last.

    ``service_ns`` is the arm's mean end-to-end time at its lowest load: at the run's own load it grows with the queue
    itself, and no saturated run would ever be long enough.
    """
    return queue_state(*_times(observations), service_ns=service_ns)


def queue_state(due: Sequence[int], ended: Sequence[int], *, service_ns: float | None) -> Saturation:
    """The same from sorted times alone: of all due requests, and of the ends of those that were served.

    How long the last requests take is no sign: of many at once the longest takes several service times anyway, and of
    half of all stable runs at 92% of capacity some wait at the end.
    """
    if len(due) <= 1 or not service_ns or due[-1] - due[0] < WINDOW_FACTOR * service_ns:
        return Saturation.UNDECIDED
    growth = _backlog_growth(due, ended)
    grows = growth > BACKLOG_GROWTH_MAX and growth * len(due) > BACKLOG_MIN
    # The last request is due as the window ends, so it is not among those that could have been completed in it.
    lags = bisect_right(ended, due[-1]) / (len(due) - 1) < COMPLETION_MIN
    if grows and lags:
        return Saturation.SATURATED
    return Saturation.SUSPECT if grows != lags else Saturation.STABLE


def over_blocks(states: Sequence[Saturation]) -> Saturation:
    """One word for a condition: SATURATED where more than half of its blocks, and one more, are (method A10)."""
    saturated = states.count(Saturation.SATURATED)
    if states and saturated >= min(len(states), math.ceil(len(states) / 2) + 1):
        return Saturation.SATURATED
    if saturated or Saturation.SUSPECT in states:
        return Saturation.SUSPECT
    return Saturation.STABLE if states and Saturation.UNDECIDED not in states else Saturation.UNDECIDED


def saturations(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> dict[Condition, Saturation]:
    """Every condition's word over its complete blocks."""
    lowest = min(evidence.manifest.loads, key=lambda load: load.level).name
    found: dict[Condition, Saturation] = {}
    for condition in expand(evidence.manifest):
        unloaded = {r.block: _mean_e2e_ns(r) for r in blocks.of(Condition(condition.arm, condition.workload, lowest))}
        states = [saturation_of(run.observations, service_ns=unloaded.get(run.block)) for run in blocks.of(condition)]
        found[condition] = over_blocks(states)
    return found


def _mean_e2e_ns(run: RunEvidence) -> float | None:
    times = [time for o in run.observations if (time := e2e_ns(o)) is not None]
    return sum(times) / len(times) if times else None


def _times(observations: Sequence[RequestObservation]) -> tuple[list[int], list[int]]:
    ended = [o.end_ns for o in observations if o.outcome is Outcome.SUCCESS and o.end_ns is not None]
    return sorted(o.due_ns for o in observations), sorted(ended)


def _backlog_growth(due: Sequence[int], ended: Sequence[int]) -> float:
    """Theil-Sen slope of the in-flight count, per offered request: 0.1 means that a tenth of them pile up."""
    seconds = (due[-1] - due[0]) / NS_PER_S
    at = np.linspace(due[0], due[-1], min(max(int(seconds), 10), POINTS_MAX))
    in_flight = np.searchsorted(due, at, side="right") - np.searchsorted(ended, at, side="right")
    fit: Any = stats.theilslopes(in_flight, (at - due[0]) / NS_PER_S)
    return float(fit.slope) / (len(due) / seconds)
