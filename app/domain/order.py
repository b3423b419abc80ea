"""Whether the host got faster or slower as the experiment went on, whatever the arm (method A12).

Blocks pair arms close in time, so a drift does not favour one; a strong one says that the host was not the same.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from app.domain.condition import Condition
from app.domain.control import Control, ControlOutcome
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.latency import e2e_ns
from app.domain.pairing import CompleteBlocks

T_MAX = 2.0
RUNS_MIN = 6
NAME = "order drift"


def order_drift(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[Control]:
    """For each workload and load: Student's t of the slope of log latency, less its arm's mean, on the order of runs.

    A |t| above 2 comes by chance in about one of twenty, so it is a warning and no more.
    """
    place = {(s.block, s.arm): s.position for s in evidence.sessions}
    here: dict[tuple[str, str], list[tuple[Condition, Mapping[int, RunEvidence]]]] = defaultdict(list)
    for condition, runs in blocks.runs.items():
        here[condition.workload, condition.load].append((condition, runs))
    for (workload, load), found in here.items():
        points = [point for condition, runs in found for point in _points(condition, runs, place)]
        yield _control(workload, load, points)


Point = tuple[float, float]
"""When a run came, and its log latency less its arm's mean."""


def _points(
    condition: Condition, runs: Mapping[int, RunEvidence], place: Mapping[tuple[int, str], int]
) -> Iterator[Point]:
    means = {block: _mean_log(run) for block, run in runs.items()}
    known = {block: value for block, value in means.items() if value is not None}
    centre = sum(known.values()) / len(known) if known else 0.0
    arms = 1 + max(place.values(), default=0)
    for block, value in known.items():
        yield block * arms + place.get((block, condition.arm), 0), value - centre


def _mean_log(run: RunEvidence) -> float | None:
    times = [time for o in run.observations if (time := e2e_ns(o)) is not None]
    return math.log(sum(times) / len(times)) if times else None


def _control(workload: str, load: str, points: Sequence[Point]) -> Control:
    told = {"name": NAME, "block": None, "arm": None, "workload": workload, "load": load}
    if len(points) < RUNS_MIN or np.ptp([value for _, value in points]) == 0:
        words = f"fewer than {RUNS_MIN} runs, or all alike"
        unknown = {"outcome": ControlOutcome.NOT_CHECKABLE, "figure": None, "threshold": T_MAX, "unit": "t"}
        return Control.model_validate({**told, **unknown, "words": words})
    fit: Any = stats.linregress([at for at, _ in points], [value for _, value in points])
    t = float(fit.slope / fit.stderr) if fit.stderr else 0.0
    drifts = abs(t) > T_MAX
    words = f"latency {'rose' if t > 0 else 'fell'} with the order of runs, whatever the arm (t = {t:.1f})"
    outcome = ControlOutcome.WARN if drifts else ControlOutcome.PASS
    return Control.model_validate(
        {**told, "outcome": outcome, "figure": t, "threshold": T_MAX, "unit": "t", "words": words if drifts else ""}
    )
