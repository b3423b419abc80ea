"""Inference on paired block log-ratios: interval, test, family, equivalence, and the least effect that they detect.

The block is the unit: requests of one run share a queue and a server (method A0, A4, A8, A9).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from app.domain.power import detectable_in_sds
from app.domain.statistics import CONFIDENCE, Estimate, spread, t_interval


def block_ratio(log_ratios: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """The geometric mean of block ratios with the t interval of their logarithms (method A4)."""
    source = "geometric mean of block ratios, t interval of block log-ratios (method A4)"
    n = len(log_ratios)
    if n == 0:
        return Estimate(value=None, n=0, unit="ratio", source=source, why="no block in which both arms define it")
    value = math.exp(float(np.mean(log_ratios)))
    limits = t_interval(log_ratios, confidence)
    if limits is None:
        return Estimate(value=value, n=n, unit="ratio", source=source, why="one block")
    low, high = math.exp(limits.low), math.exp(limits.high)
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=n, unit="ratio", source=source)


def paired_p(log_ratios: Sequence[float]) -> float | None:
    """Two-sided p of the paired t test that the ratio is 1; ``None`` below two blocks."""
    if len(log_ratios) <= 1:
        return None
    if spread(log_ratios) == 0:
        return 0.0 if log_ratios[0] else 1.0
    paired: Any = stats.ttest_1samp(log_ratios, 0.0)
    return float(paired.pvalue)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm-adjusted p values in the given order; an undefined one counts in the family as 1 and stays undefined.

    statsmodels has it too, and collects garbage in each call: half of a small report's time.
    """
    if not p_values:
        return ()
    known = [1.0 if p is None else p for p in p_values]
    adjusted, largest = dict[int, float](), 0.0
    for step, index in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        largest = max(largest, min(known[index] * (len(known) - step), 1.0))
        adjusted[index] = largest
    return tuple(None if p is None else adjusted[index] for index, p in enumerate(p_values))


def bonferroni(confidence: float, family: int) -> float:
    """The confidence of each interval so that ``family`` of them hold together with ``confidence``."""
    return 1 - (1 - confidence) / max(family, 1)


def equivalent(log_ratios: Sequence[float], margin: float, confidence: float = CONFIDENCE) -> bool:
    """Two one-sided t tests at ``1 - confidence``: is the mean log-ratio inside ``±margin``? False below two blocks."""
    limits = t_interval(log_ratios, 2 * confidence - 1)
    return limits is not None and -margin < limits.low and limits.high < margin


def minimum_detectable_effect(log_ratios: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """The smallest relative effect that this spread and number of blocks detects with 80% power; ``None`` below two."""
    if len(log_ratios) <= 1:
        return None
    sds = spread(log_ratios)
    return math.expm1(sds * detectable_in_sds(len(log_ratios), confidence))
