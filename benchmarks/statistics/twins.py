"""The product's rules over many experiments at once; ``tests/benchmarks/test_statistics_twins.py`` holds each to it.

Only what the product does for one experiment at a time is here: what it does for arrays is called as it is.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from app.domain.looks import PlannedLook
from app.domain.paired import bonferroni
from app.domain.power import detectable_in_sds
from app.domain.statistics import CONFIDENCE, QUANTILE_METHOD, Floats
from app.domain.vocabulary import VerdictWord

Words = npt.NDArray[np.str_]


class Interval(NamedTuple):
    low: Floats
    high: Floats

    def covers(self, truth: float | Floats) -> npt.NDArray[np.bool_]:
        return (self.low <= truth) & (truth <= self.high)


def t_interval(values: Floats, confidence: float = CONFIDENCE) -> Interval:
    """``statistics.t_interval`` over the last axis."""
    n, centre = values.shape[-1], values.mean(-1)
    half = special.stdtrit(n - 1, 0.5 + confidence / 2) * values.std(-1, ddof=1) / math.sqrt(n)
    return Interval(centre - half, centre + half)


def run_quantiles(values: Floats, q: float) -> Floats:
    """``statistics.quantile`` of each run: the last axis are its requests."""
    return np.quantile(values, q, axis=-1, method=QUANTILE_METHOD)


def words(log_ratios: Floats, *, delta: float, confidence: float = CONFIDENCE) -> Words:
    """``finding.sharing`` and ``finding.find``: experiments x family x blocks to experiments x family of words."""
    experiments, family, blocks = log_ratios.shape
    margin, centre = math.log1p(delta), log_ratios.mean(-1)
    to_margin = (np.abs(centre) - margin) / (log_ratios.std(-1, ddof=1) / math.sqrt(blocks))
    beyond, inside = 2 * special.stdtr(blocks - 1, -to_margin), special.stdtr(blocks - 1, to_margin)
    claim = np.minimum(beyond, inside)
    order = np.argsort(claim, axis=-1)
    allowed = (1 - confidence) / (family - np.arange(family))
    going_on = np.cumprod(np.take_along_axis(claim, order, -1) <= allowed, axis=-1).astype(bool)
    claimed = np.zeros((experiments, family), dtype=bool)
    np.put_along_axis(claimed, order, going_on, axis=-1)
    word = np.where(inside < beyond, VerdictWord.EQUIVALENT, np.where(centre > 0, VerdictWord.HELPS, VerdictWord.HURTS))
    return np.where(claimed, word, VerdictWord.INCONCLUSIVE)


def aa_detectable(log_ratios: Floats) -> Floats:
    """``host_noise.HostNoise.detectable``: experiments x conditions x blocks to its noisiest condition's."""
    worst = log_ratios.std(-1, ddof=1).max(-1)
    return np.expm1(worst * detectable_in_sds(log_ratios.shape[-1]))


class Stopped(NamedTuple):
    """Each experiment as of the look that ended it."""

    words: Words
    look: npt.NDArray[np.int_]
    """Which one, from 0."""
    interval: Interval
    """Of the family together, experiments x family, at the error that the look may spend."""


def at_looks(log_ratios: Floats, looks: Sequence[PlannedLook], *, delta: float) -> Stopped:
    """``judged.judge``: experiments x family x blocks, each stopped at the first look that settles all its words."""
    experiments, family, _ = log_ratios.shape
    said = np.full((experiments, family), VerdictWord.INCONCLUSIVE, dtype="<U16")
    ended, low, high = np.full(experiments, -1), np.zeros((experiments, family)), np.zeros((experiments, family))
    for index, look in enumerate(looks):
        seen = log_ratios[..., : look.blocks]
        found = words(seen, delta=delta, confidence=look.confidence)
        limits = t_interval(seen, bonferroni(look.confidence, family))
        settled = np.all(found != VerdictWord.INCONCLUSIVE, axis=-1) | (index == len(looks) - 1)
        now = (ended < 0) & settled
        said[now], low[now], high[now], ended[now] = found[now], limits.low[now], limits.high[now], index
    return Stopped(said, ended, Interval(low, high))


def percentile_bootstrap(values: Floats, resamples: int, rng: np.random.Generator) -> Interval:
    """A rival: percentiles of the means of resampled blocks."""
    picked = rng.integers(0, values.shape[-1], (resamples, values.shape[-1]))
    means = values[..., picked].mean(-1)
    return Interval(*np.quantile(means, [0.025, 0.975], axis=-1))


def wald(successes: Floats, trials: Floats) -> Interval:
    """A rival: every drafted token a coin of its own."""
    share = successes / trials
    half = stats.norm.ppf(0.975) * np.sqrt(share * (1 - share) / trials)
    return Interval(share - half, share + half)


def pooled_order_statistics(values: Floats, q: float) -> Interval:
    """A rival, and method A5's interval within a trial: ranks of all requests of all runs as if independent."""
    ordered = np.sort(values.reshape(values.shape[0], -1), axis=-1)
    low, high = ranks(ordered.shape[-1], q)
    nowhere = np.full(len(ordered), np.inf)
    return Interval(-nowhere if low is None else ordered[:, low - 1], nowhere if high is None else ordered[:, high - 1])


def ranks(n: int, q: float, confidence: float = CONFIDENCE) -> tuple[int | None, int | None]:
    """The 1-based ranks of method A5's distribution-free interval; ``None`` where ``n`` is too small."""
    low, high = (int(stats.binom.ppf(tail, n, q)) for tail in ((1 - confidence) / 2, (1 + confidence) / 2))
    return (low if low >= 1 else None), (high + 1 if high + 1 <= n else None)


def sizes(quick: bool, full: int) -> int:  # noqa: FBT001
    """Experiments of a row: a tenth for a look."""
    return full // 10 if quick else full


WORLDS: Sequence[int] = (3, 5, 8)
"""Blocks."""
