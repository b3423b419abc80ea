"""What block log-ratios allow to claim, and how much of the error each claim of a family may spend.

Holm (method A8) over the claims themselves, beyond the margin or within it, so that whatever words a family is
given, the chance of any false one among them stays within the declared error.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from scipy import stats

from app.domain.paired import bonferroni, equivalent
from app.domain.power import blocks_needed
from app.domain.statistics import spread, t_interval
from app.domain.vocabulary import VerdictWord

BLOCKS_MIN: Final = 2
BLOCKS_FOR_DECISION: Final = 5
"""With fewer complete blocks every word is exploratory, so that no fewer can be said to decide."""


class Finding(NamedTuple):
    """What block log-ratios say, before validity is considered; the limits are those that the word rests on."""

    word: VerdictWord
    low: float | None = None
    high: float | None = None
    blocks_needed: int | None = None


def find(log_ratios: Sequence[float], *, delta: float, confidence: float, family: int) -> Finding:
    """Decide on one comparison that shares the error with ``family`` of them, itself included; limits are ratios."""
    if len(log_ratios) < BLOCKS_MIN:
        return Finding(VerdictWord.INCONCLUSIVE)
    margin, simultaneous = math.log1p(delta), bonferroni(confidence, family)
    if equivalent(log_ratios, margin, simultaneous):
        return Finding(VerdictWord.EQUIVALENT, *_ratio_limits(log_ratios, 2 * simultaneous - 1))
    low, high = _ratio_limits(log_ratios, simultaneous)
    if math.log(low) > margin:
        return Finding(VerdictWord.HELPS, low, high)
    if math.log(high) < -margin:
        return Finding(VerdictWord.HURTS, low, high)
    return Finding(VerdictWord.INCONCLUSIVE, low, high, _more_blocks(log_ratios, margin, simultaneous))


def sharing(members: Sequence[Sequence[float]], *, delta: float, confidence: float, family: int) -> tuple[int, ...]:
    """For each member how many of the declared ``family`` share the error when it is decided (Holm's steps).

    The clearest is decided as one of all; each next one as one of those still open, until one cannot be claimed: it and
    all less clear ones stay undecided at that step.
    """
    margin = math.log1p(delta)
    clearest_first = sorted(range(len(members)), key=lambda i: _claim_p(members[i], margin))
    steps, open_still, stopped = [family] * len(members), family, False
    for index in clearest_first:
        steps[index] = max(open_still, 1)
        stopped = stopped or _claim_p(members[index], margin) > (1 - confidence) / steps[index]
        open_still -= not stopped
    return tuple(steps)


def _claim_p(log_ratios: Sequence[float], margin: float) -> float:
    """The p of the one claim that can be made: beyond the margin (two-sided), or inside it (two one-sided tests)."""
    n = len(log_ratios)
    if n < BLOCKS_MIN:
        return 1.0
    error, centre = spread(log_ratios) / math.sqrt(n), sum(log_ratios) / n
    to_margin = abs(centre) - margin
    if error == 0:
        return float(to_margin == 0)
    return float(min(2 * stats.t.sf(to_margin / error, n - 1), stats.t.cdf(to_margin / error, n - 1), 1.0))


def _ratio_limits(log_ratios: Sequence[float], confidence: float) -> tuple[float, float]:
    limits = t_interval(log_ratios, confidence)
    if limits is None:
        raise ValueError("an interval needs two blocks")
    return math.exp(limits.low), math.exp(limits.high)


def _more_blocks(log_ratios: Sequence[float], margin: float, confidence: float) -> int | None:
    """Blocks to detect ``margin``; where there are that many already, to tell this effect from the margin."""
    has = len(log_ratios)
    to_margin = abs(abs(sum(log_ratios) / has) - margin)
    for effect in (margin, to_margin):
        needed = blocks_needed(spread(log_ratios), effect, confidence)
        if needed is None:
            return None
        if needed > has:
            return max(needed, BLOCKS_FOR_DECISION)
    return max(has + 1, BLOCKS_FOR_DECISION)
