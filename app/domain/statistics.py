"""Estimates with intervals: quantiles, shares and means of blocks.

numpy and scipy do the mathematics; this module fixes which of their methods we use, so that
the choice is made once (``docs/metrics.md`` says why).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict
from scipy import stats

CONFIDENCE: Final = 0.95
QUANTILE_METHOD: Final = "median_unbiased"
QUANTILES: Final = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
DISPLAY_GATES: Final = {0.95: 100, 0.99: 500}
"""A tail quantile is shown from this many served requests on."""

Floats = npt.NDArray[np.float64]


class Estimate(BaseModel):
    """A number with its interval, unit, sample size and where it comes from.

    ``low``/``high`` are ``None`` where no interval can be given (one block, no drafts), and
    ``why`` then says so; ``value`` is ``None`` where the quantity is undefined (never 0).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    n: int
    """Units that carry the uncertainty: blocks for between-arm claims, requests for acceptance."""
    unit: str
    source: str
    """Estimator in words, such as ``t interval of block log-ratios (method A4)``."""
    why: str | None = None


class Interval(NamedTuple):
    """Two limits on the scale of the values that they were made from."""

    low: float
    high: float


def quantile(values: Sequence[float], q: float) -> float | None:
    """The ``median_unbiased`` quantile; infinite where it falls among infinite values, ``None`` of nothing."""
    if len(values) == 0:
        return None
    ordered = sorted(values)
    # As numpy's method of that name, whose overhead per call a report with thousands of quantiles would feel.
    place = min(max(len(ordered) * q + (q + 1) / 3 - 1, 0.0), len(ordered) - 1.0)
    below, part = ordered[int(place)], place - int(place)
    above = ordered[min(int(place) + 1, len(ordered) - 1)]
    if part == 0 or above == below:
        return float(below)
    if math.isinf(above):
        return math.inf
    nearer_below = part < 1 / 2  # numpy's way of rounding alike from both sides
    return float(below + (above - below) * part if nearer_below else above - (above - below) * (1 - part))


def quantile_over_runs(
    runs: Sequence[Sequence[float]], q: float, unit: str, confidence: float = CONFIDENCE
) -> Estimate:
    """The typical run's quantile: geometric mean of the runs' own, with the t interval of their logarithms.

    Failures are given as ``inf`` and count as slowest. Where a run's quantile is 0 both are taken of the values as
    they are. Requests of one run share a queue: pooled order statistics cover far less than they claim.
    """
    source = f"{QUANTILE_METHOD} quantile of each run, geometric mean of runs, t interval of logarithms (method A5)"
    served = sum(math.isfinite(value) for values in runs for value in values)
    if served < (gate := DISPLAY_GATES.get(q, 1)):
        why = f"needs {gate} served requests, has {served}"
        return Estimate(value=None, n=sum(map(bool, runs)), unit=unit, source=source, why=why)
    found = [value for values in runs if (value := quantile(values, q)) is not None]
    if math.inf in found:
        why = f"more than {1 - q:.0%} of a run's offered requests failed"
        return Estimate(value=None, n=len(found), unit=unit, source=source, why=why)
    if min(found) <= 0 or min(found) == max(found):
        # Logarithms of 0 there are none, and those of equal numbers would only round them.
        return mean_over_blocks(found, unit, confidence)
    logs = [math.log(value) for value in found]
    value, limits = math.exp(float(np.mean(logs))), t_interval(logs, confidence)
    if limits is None:
        return Estimate(value=value, n=1, unit=unit, source=source, why="one block")
    low, high = (math.exp(limit) for limit in limits)
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=len(found), unit=unit, source=source)


def proportion(successes: int, n: int, unit: str, nothing: str, confidence: float = CONFIDENCE) -> Estimate:
    """``successes / n`` with the Clopper-Pearson interval."""
    source = "share with Clopper-Pearson interval (method A15)"
    if n == 0:
        return Estimate(value=None, n=0, unit=unit, source=source, why=nothing)
    limits = stats.binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    return Estimate(
        value=successes / n,
        low=float(limits.low),
        high=float(limits.high),
        confidence=confidence,
        n=n,
        unit=unit,
        source=source,
    )


def t_interval(values: Sequence[float], confidence: float) -> Interval | None:
    """The t interval of the mean; ``None`` below two values."""
    if len(values) <= 1:
        return None
    half = float(stats.t.ppf(0.5 + confidence / 2, len(values) - 1)) * spread(values) / math.sqrt(len(values))
    centre = float(np.mean(values))
    return Interval(centre - half, centre + half)


def mean_over_blocks(values: Sequence[float], unit: str, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of one value per block with its t interval."""
    source = "mean of blocks, t interval"
    if not values:
        return Estimate(value=None, n=0, unit=unit, source=source, why="no complete block")
    limits = t_interval(values, confidence)
    centre = float(np.mean(values))
    if limits is None:
        return Estimate(value=centre, n=1, unit=unit, source=source, why="one block")
    return Estimate(
        value=centre, low=limits.low, high=limits.high, confidence=confidence, n=len(values), unit=unit, source=source
    )


def spread(values: Sequence[float]) -> float:
    """Standard deviation (n - 1) of two or more values."""
    # Equal numbers may differ in their last bit from their mean; their spread is exactly 0.
    return 0.0 if max(values) == min(values) else float(np.std(values, ddof=1))
