"""The difference of two arms' shares over the same prompts: a paired bootstrap of prompts, exact where few differ.

A prompt over all blocks is one cluster: its repeats are no further prompts (method A14).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from app.domain.clustered import clopper_pearson
from app.domain.statistics import CONFIDENCE, Floats, Interval

RESAMPLES: Final = 4999
SEED: Final = 20_240_301
"""Fixed, so that the same evidence gives the same bytes."""
DISCORDANT_MIN: Final = 6
"""Below so many prompts that differ no sign test can reach 5%, and a bootstrap would claim to."""
BOOTSTRAP_MAX: Final = 1000
"""Of more prompts a t interval says the same, at a fraction of the work."""
BATCH: Final = 500
SOURCE: Final = (
    "arm minus target-only over the same prompts, paired BCa bootstrap over prompts (t interval above 1,000 of them); "
    "below 6 prompts that differ, at least the exact limits (method A14)"
)


class Paired(NamedTuple):
    """One prompt: how many of its answers count in either arm, of how many blocks that both answered."""

    arm: int
    target: int
    of: int


class Difference(NamedTuple):
    """The difference of the shares; ``at`` gives its limits."""

    value: float
    differences: Floats
    sizes: Floats
    resampled: Any

    @property
    def discordant(self) -> int:
        """Prompts on which the arms differ."""
        return int(np.count_nonzero(self.differences))

    def at(self, confidence: float = CONFIDENCE) -> Interval:
        """Limits that hold with ``confidence``, the same risk on either side."""
        if self.discordant >= DISCORDANT_MIN:
            return self._spread(confidence)
        n = float(self.sizes.size)
        up = clopper_pearson(float((self.differences > 0).sum()), n, confidence).high
        down = clopper_pearson(float((self.differences < 0).sum()), n, confidence).high
        return Interval(-float(down), float(up))

    def _spread(self, confidence: float) -> Interval:
        if self.resampled is None:
            return _t_limits(self.differences, self.sizes, confidence)
        found = _bootstrap(self.differences, self.sizes, confidence, self.resampled).confidence_interval
        if not (np.isfinite(found.low) and np.isfinite(found.high)):
            return _t_limits(self.differences, self.sizes, confidence)
        return Interval(float(found.low), float(found.high))


def difference(prompts: Sequence[Paired]) -> Difference | None:
    """Arm minus target-only; ``None`` of no prompt."""
    if not prompts:
        return None
    sizes = np.asarray([p.of for p in prompts], np.float64)
    differences = np.asarray([p.arm - p.target for p in prompts], np.float64)
    value = float(differences.sum() / sizes.sum())
    discordant = int(np.count_nonzero(differences))
    resampled = None
    if discordant >= DISCORDANT_MIN and len(prompts) <= BOOTSTRAP_MAX and np.ptp(differences / sizes) > 0:
        resampled = _bootstrap(differences, sizes, CONFIDENCE)
    return Difference(value, differences, sizes, resampled)


def _bootstrap(differences: Floats, sizes: Floats, confidence: float, before: Any = None) -> Any:
    def ratio(x: Floats, y: Floats, axis: int = -1) -> Floats:
        return x.sum(axis=axis) / y.sum(axis=axis)

    return stats.bootstrap(
        (differences, sizes),
        ratio,
        paired=True,
        vectorized=True,
        method="BCa",
        n_resamples=RESAMPLES if before is None else 0,
        batch=BATCH,
        confidence_level=confidence,
        bootstrap_result=before,
        rng=np.random.default_rng(SEED),
    )


def _t_limits(differences: Floats, sizes: Floats, confidence: float) -> Interval:
    n, ratio = sizes.size, differences.sum() / sizes.sum()
    error = np.sqrt(n / max(n - 1, 1) * ((differences - ratio * sizes) ** 2).sum()) / sizes.sum()
    half = float(stats.t.ppf(0.5 + confidence / 2, max(n - 1, 1)) * error)
    return Interval(float(ratio) - half, float(ratio) + half)
