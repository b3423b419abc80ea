"""Ratios of totals over clusters, with intervals that hold for few, unequal clusters of skewed counts.

A delete-one jackknife with t at the effective number of clusters, corrected for skewness in two ways of which the wider
limit counts: method A1's linearised t and BCa intervals cover too little (``docs/statistics.md``).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from app.domain.statistics import CONFIDENCE, Estimate, Floats

JACKKNIFE: Final = "jackknife with effective clusters, corrected for skewness (method A1, docs/statistics.md)"
_SKEWNESS_MIN: Final = 1e-6


class Limits(NamedTuple):
    """Lower and upper limits, one for each set of clusters; not a number where the clusters give none."""

    low: Floats
    high: Floats


class _Jackknife(NamedTuple):
    clusters: Floats
    ratio: Floats
    error: Floats
    skewness: Floats
    quantile: Floats


def ratio_of_totals(
    numerators: Sequence[float],
    denominators: Sequence[float],
    unit: str,
    *,
    most: float | None = 1.0,
    shift: float = 0.0,
    nothing: str = "no drafts proposed",
    confidence: float = CONFIDENCE,
) -> Estimate:
    """``shift + sum(numerators) / sum(denominators)`` with an interval clustered by request (method A1).

    One entry per cluster; ``most`` bounds a cluster's ratio, ``None`` where nothing does. Never a binomial interval,
    whose coverage here is about 26%. Clusters with denominator 0 carry no information and are not counted.
    """
    a, d = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    a, d = a[d > 0], d[d > 0]
    n, source = int(d.size), f"ratio of totals over requests, {JACKKNIFE}"
    if n == 0:
        return Estimate(value=None, n=0, unit=unit, source=source, why=nothing)
    value = shift + float(a.sum() / d.sum())
    if n == 1 or np.ptp(a / d) == 0:
        why = "one request" if n == 1 else "every request has the same ratio, so its spread cannot be estimated"
        return Estimate(value=value, n=n, unit=unit, source=source, why=why)
    low, high = (shift + float(limit) for limit in ratio_limits(a, d, most, confidence))
    if not (math.isfinite(low) and math.isfinite(high)):
        return Estimate(value=value, n=n, unit=unit, source=source, why="the requests' ratios are degenerate")
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=n, unit=unit, source=source)


def ratio_limits(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike, most: float | None, confidence: float = CONFIDENCE
) -> Limits:
    """Limits of ``sum(numerators) / sum(denominators)`` over the last axis; other axes are sets of clusters.

    The wider of two: symmetric on the logit scale of ``ratio / most`` (of the logarithm, where ``most`` is ``None``),
    and Hall's cubic transformation of t, which also corrects for the skewness that the clusters themselves show.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = _jackknife(np.asarray(numerators, np.float64), np.asarray(denominators, np.float64), confidence)
        scaled, hall = _on_scale(found, most), _hall(found)
        low, high = np.fmin(scaled.low, hall.low), np.fmax(scaled.high, hall.high)
    return Limits(np.maximum(low, 0.0), high if most is None else np.minimum(high, most))


def attainment(good: Sequence[int], offered: Sequence[int], confidence: float = CONFIDENCE) -> Estimate:
    """Share of offered requests that met every objective, with an interval over blocks (method A6)."""
    source = f"good / offered, {JACKKNIFE} over blocks, at least the Clopper-Pearson interval"
    if not sum(offered):
        return Estimate(value=None, n=0, unit="share", source=source, why="no request was offered")
    value = sum(good) / sum(offered)
    if len(offered) == 1:
        return Estimate(value=value, n=1, unit="share", source=source, why="one block")
    low, high = (float(limit) for limit in share_limits(good, offered, confidence))
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=len(offered), unit="share", source=source)


def share_limits(good: npt.ArrayLike, offered: npt.ArrayLike, confidence: float = CONFIDENCE) -> Limits:
    """Limits of a share over blocks (the last axis), never inside those that requests alone would give.

    Near 0 and 1 few blocks show any spread, and a few lucky ones would pass for certainty.
    """
    g, n = np.asarray(good, np.float64), np.asarray(offered, np.float64)
    blocks, alone = ratio_limits(g, n, 1.0, confidence), clopper_pearson(g.sum(-1), n.sum(-1), confidence)
    return Limits(np.fmin(blocks.low, alone.low), np.fmax(blocks.high, alone.high))


def good_rate(good: Sequence[int], of: Sequence[int], offered_rps: Sequence[float]) -> Estimate:
    """Mean over blocks of ``good / of`` times the rate at which requests were offered; one of each for a block."""
    source = "mean of blocks, t interval, at least that of the share of good requests (method A6)"
    unit, n = "requests/s", len(good)
    if not n:
        return Estimate(value=None, n=0, unit=unit, source=source, why="no complete block")
    value = float(np.mean(np.divide(good, of) * offered_rps))
    if n == 1:
        return Estimate(value=value, n=1, unit=unit, source=source, why="one block")
    low, high = (float(limit) for limit in good_rate_limits(good, of, offered_rps))
    return Estimate(value=value, low=low, high=high, confidence=CONFIDENCE, n=n, unit=unit, source=source)


def good_rate_limits(
    good: npt.ArrayLike, of: npt.ArrayLike, offered_rps: npt.ArrayLike, confidence: float = CONFIDENCE
) -> Limits:
    """The wider of the t interval of the blocks' rates and the share's limits times the mean offered rate.

    Where nearly all requests are good, the blocks' rates hardly differ and t alone would pass for certainty.
    """
    g, n, offered = (np.asarray(x, np.float64) for x in (good, of, offered_rps))
    rates, blocks = g / n * offered, g.shape[-1]
    half = special.stdtrit(blocks - 1, 0.5 + confidence / 2) * rates.std(-1, ddof=1) / math.sqrt(blocks)
    share, offered_mean = share_limits(g, n, confidence), offered.mean(-1)
    low = np.fmin(rates.mean(-1) - half, share.low * offered_mean)
    return Limits(np.maximum(low, 0.0), np.fmax(rates.mean(-1) + half, share.high * offered_mean))


def clopper_pearson(successes: npt.ArrayLike, n: npt.ArrayLike, confidence: float = CONFIDENCE) -> Limits:
    """The exact interval of a share of independent trials."""
    k, of, tail = np.asarray(successes, np.float64), np.asarray(n, np.float64), (1 - confidence) / 2
    low = special.betaincinv(np.where(k > 0, k, 1.0), of - k + 1, tail)
    high = special.betaincinv(k + 1, np.where(of > k, of - k, 1.0), 1 - tail)
    return Limits(np.where(k > 0, low, 0.0), np.where(of > k, high, 1.0))


def _jackknife(a: Floats, d: Floats, confidence: float) -> _Jackknife:
    there, above, below = d > 0, a.sum(-1, keepdims=True), d.sum(-1, keepdims=True)
    clusters = there.sum(-1, keepdims=True)
    ratio = above / below
    # How far the ratio moves when a cluster is left out; one without a denominator moves nothing.
    moved = np.where(there, ratio - (above - a) / (below - d), 0.0)
    error = np.sqrt((clusters - 1) / clusters * (moved**2).sum(-1, keepdims=True))
    centred = np.where(there, moved - moved.sum(-1, keepdims=True) / clusters, 0.0)
    spread = (centred**2).sum(-1, keepdims=True) / clusters
    skewness = (centred**3).sum(-1, keepdims=True) / clusters / spread**1.5
    # Unequal or heavy-tailed clusters tell their error as fewer would: Kish, and Satterthwaite by their kurtosis.
    effective = below**2 / (d**2).sum(-1, keepdims=True)
    kurtosis = (centred**4).sum(-1, keepdims=True) / clusters / spread**2
    freedom = np.fmin(effective - 1, 2 * clusters / np.maximum(kurtosis - 1, _SKEWNESS_MIN))
    quantile = stats.t.ppf(0.5 + confidence / 2, np.maximum(freedom, 1))
    return _Jackknife(*(x[..., 0] for x in (clusters, ratio, error, skewness, quantile)))


def _on_scale(found: _Jackknife, most: float | None) -> Limits:
    if most is None:
        half = found.quantile * found.error / found.ratio
        return Limits(found.ratio * np.exp(-half), found.ratio * np.exp(half))
    share = found.ratio / most
    half = found.quantile * found.error / most / (share * (1 - share))
    return Limits(most * special.expit(special.logit(share) - half), most * special.expit(special.logit(share) + half))


def _hall(found: _Jackknife) -> Limits:
    """Hall (1992): the monotone cubic in t whose distribution has no skewness to the first order, inverted."""
    root = np.sqrt(found.clusters)
    skewness = np.where(abs(found.skewness) < _SKEWNESS_MIN, _SKEWNESS_MIN, found.skewness)

    def inverse(x: Floats) -> Floats:
        return 3 * root / skewness * (np.cbrt(1 + skewness * (x / root - skewness / (6 * found.clusters))) - 1)

    low = found.ratio - found.error * inverse(found.quantile)
    return Limits(low, found.ratio - found.error * inverse(-found.quantile))
