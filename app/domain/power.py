"""What a number of blocks can show, known before or after they are measured: the power of each claim (method A4, A9).

All effects and deviations are of logarithms of block ratios. Exact for normal log-ratios: noncentral t, and for
equivalence the average over the deviations that so many blocks would show.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from scipy import special, stats
from statsmodels.stats.power import TTestPower

from app.domain.statistics import CONFIDENCE

POWER: Final = 0.80
BLOCKS_MAX: Final = 1000
_DEVIATIONS: Final = 400
"""Points at which the distribution of the sample's deviation is averaged over; the error is below 0.001."""


@cache
def detectable_in_sds(blocks: int, confidence: float = CONFIDENCE, power: float = POWER) -> float:
    """The effect, in standard deviations of block log-ratios, that a two-sided paired t test finds with this power."""
    return float(TTestPower().solve_power(nobs=blocks, alpha=1 - confidence, power=power, alternative="two-sided"))


def power_beyond(
    effect: float, sd: float, blocks: int, *, margin: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The chance that the two-sided interval lies beyond ``margin`` on the side of a positive ``effect``."""
    if blocks <= 1:
        return 0.0
    if sd == 0:
        return float(effect > margin)
    freedom, shift = blocks - 1, (effect - margin) / sd * math.sqrt(blocks)
    critical = float(special.stdtrit(freedom, 0.5 + confidence / 2))
    missed = float(special.nctdtr(freedom, shift, critical))
    # Far from its quantile the noncentral t has no value here; it is as good as normal there.
    return 1 - missed if math.isfinite(missed) else float(special.ndtr(shift - critical))


def power_equivalent(
    margin: float, sd: float, blocks: int, *, effect: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The chance that two one-sided t tests place a mean of ``effect`` inside ``±margin``."""
    if blocks <= 1:
        return 0.0
    if sd == 0:
        return float(abs(effect) < margin)
    places = (np.arange(_DEVIATIONS) + 0.5) / _DEVIATIONS
    seen = sd * np.sqrt(stats.chi2.ppf(places, blocks - 1) / (blocks - 1))
    error = sd / math.sqrt(blocks)
    room = margin - float(stats.t.ppf(confidence, blocks - 1)) * seen / math.sqrt(blocks)
    inside = stats.norm.cdf((room - effect) / error) - stats.norm.cdf((-room - effect) / error)
    return float(np.maximum(inside, 0).mean())


def fewest_blocks(power_at: Callable[[int], float], power: float = POWER) -> int | None:
    """The fewest blocks at which ``power_at`` reaches ``power``; ``None`` above 1000. It must not fall with blocks."""
    if power_at(BLOCKS_MAX) < power:
        return None
    low, high = 1, BLOCKS_MAX
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high


def blocks_needed(
    sd: float, effect: float, confidence: float = CONFIDENCE, *, margin: float = 0.0, power: float = POWER
) -> int | None:
    """Blocks with which ``effect`` is shown to lie beyond ``margin``; ``None`` above 1000."""
    return fewest_blocks(lambda n: power_beyond(effect, sd, n, margin=margin, confidence=confidence), power)


def cautious(sd: float, freedom: int, assurance: float = POWER) -> float:
    """The deviation that the true one exceeds with a chance of only ``1 - assurance``, from one seen with ``freedom``.

    A plan with the deviation as seen falls short in half of all cases.
    """
    return sd * math.sqrt(freedom / float(stats.chi2.ppf(1 - assurance, freedom)))
