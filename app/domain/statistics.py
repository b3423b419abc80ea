"""Estimates with intervals: quantiles, ratios of totals, shares and means of blocks.

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
BOOTSTRAP_BELOW: Final = 30
BOOTSTRAP_RESAMPLES: Final = 9999
BOOTSTRAP_SEED: Final = 20_240_229
"""Fixed, so that the same evidence gives the same bytes."""

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
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return None
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return math.inf
    # Interpolating towards infinity gives NaN, so it is done towards a number that no latency reaches.
    found = float(np.quantile(np.where(np.isfinite(array), array, 1e300), q, method=QUANTILE_METHOD))
    return math.inf if found > finite.max() else found


def quantile_ranks(n: int, q: float, confidence: float = CONFIDENCE) -> tuple[int | None, int | None]:
    """The 1-based ranks of the distribution-free interval (method A5); ``None`` where ``n`` is too small."""
    alpha = 1 - confidence
    low = int(stats.binom.ppf(alpha / 2, n, q))
    high = int(stats.binom.ppf(1 - alpha / 2, n, q)) + 1
    return (low if low >= 1 else None), (high if high <= n else None)


def quantile_estimate(values: Sequence[float], q: float, unit: str, confidence: float = CONFIDENCE) -> Estimate:
    """A pooled quantile with its order-statistic interval; failures are given as ``inf`` and count as slowest.

    The interval takes requests as independent, which those of one queue are not: it is for display, not for verdicts.
    """
    served = sum(map(math.isfinite, values))
    source = f"{QUANTILE_METHOD} quantile, order-statistic interval within runs (method A5)"
    if served < (gate := DISPLAY_GATES.get(q, 1)):
        why = f"needs {gate} served requests, has {served}"
        return Estimate(value=None, n=served, unit=unit, source=source, why=why)
    found = quantile(values, q)
    if found is None or math.isinf(found):
        why = f"more than {1 - q:.0%} of the offered requests failed"
        return Estimate(value=None, n=served, unit=unit, source=source, why=why)
    ordered = sorted(values)
    low, high = (None if rank is None else ordered[rank - 1] for rank in quantile_ranks(len(ordered), q, confidence))
    high = None if high is None or math.isinf(high) else high
    short = "too few requests for both limits" if low is None or high is None else None
    return Estimate(
        value=found, low=low, high=high, confidence=confidence, n=served, unit=unit, source=source, why=short
    )


def ratio_of_totals(
    numerators: Sequence[float],
    denominators: Sequence[float],
    unit: str,
    *,
    shift: float = 0.0,
    nothing: str = "no drafts proposed",
    confidence: float = CONFIDENCE,
) -> Estimate:
    """``shift + sum(numerators) / sum(denominators)`` with an interval clustered by request (method A1).

    One entry per cluster. Linearised t interval, BCa bootstrap of the clusters below 30 of them; never a binomial
    interval, whose coverage here is about 26%. Clusters with denominator 0 carry no information and are not counted.
    """
    a, d = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    a, d = a[d > 0], d[d > 0]
    n = int(d.size)
    kind = "BCa bootstrap" if n < BOOTSTRAP_BELOW else "linearised t interval"
    source = f"ratio of totals, {kind} over requests (method A1)"
    if n == 0:
        return Estimate(value=None, n=0, unit=unit, source=source, why=nothing)
    value = shift + float(a.sum() / d.sum())
    if n == 1 or np.ptp(a / d) == 0:
        why = "one request" if n == 1 else "every request has the same ratio, so its spread cannot be estimated"
        return Estimate(value=value, n=n, unit=unit, source=source, why=why)
    limits = _bca_interval(a, d, confidence) if n < BOOTSTRAP_BELOW else _linearised_interval(a, d, confidence)
    if not all(map(math.isfinite, limits)):
        return Estimate(value=value, n=n, unit=unit, source=source, why="the bootstrap is degenerate")
    return Estimate(
        value=value,
        low=shift + limits.low,
        high=shift + limits.high,
        confidence=confidence,
        n=n,
        unit=unit,
        source=source,
    )


def _linearised_interval(a: Floats, d: Floats, confidence: float) -> Interval:
    n, ratio = d.size, a.sum() / d.sum()
    error = math.sqrt(n / (n - 1) * float(((a - ratio * d) ** 2).sum())) / float(d.sum())
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return Interval(float(ratio) - half, float(ratio) + half)


def _bca_interval(a: Floats, d: Floats, confidence: float) -> Interval:
    def ratio(x: Floats, y: Floats, axis: int = -1) -> Floats:
        return x.sum(axis=axis) / y.sum(axis=axis)

    found = stats.bootstrap(
        (a, d),
        ratio,
        paired=True,
        vectorized=True,
        method="BCa",
        n_resamples=BOOTSTRAP_RESAMPLES,
        confidence_level=confidence,
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))


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


def attainment(good: Sequence[int], offered: Sequence[int], confidence: float = CONFIDENCE) -> Estimate:
    """Share of offered requests that met every objective, with the block-level t interval of its logit (method A6)."""
    source = "good / offered, t interval of block logits (method A6)"
    if not sum(offered):
        return Estimate(value=None, n=0, unit="share", source=source, why="no request was offered")
    value = sum(good) / sum(offered)
    # Half a request is added on both sides, since the logit of 0 and of 1 is infinite.
    logits = [math.log((g + 0.5) / (n - g + 0.5)) for g, n in zip(good, offered, strict=True)]
    limits = t_interval(logits, confidence)
    if limits is None:
        return Estimate(value=value, n=len(offered), unit="share", source=source, why="one block")
    # The correction pulls towards one half, so the limits are widened to hold the value itself.
    low, high = (1 / (1 + math.exp(-limit)) for limit in limits)
    return Estimate(
        value=value,
        low=min(low, value),
        high=max(high, value),
        confidence=confidence,
        n=len(offered),
        unit="share",
        source=source,
    )


def spread(values: Sequence[float]) -> float:
    """Standard deviation (n - 1) of two or more values."""
    # Equal numbers may differ in their last bit from their mean; their spread is exactly 0.
    return 0.0 if max(values) == min(values) else float(np.std(values, ddof=1))
