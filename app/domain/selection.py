"""What picking the best of several arms on the same blocks adds to its ratio by luck, and what remains without it.

Each block is left out in turn, the best arm of the others is looked up in it, and those ratios are averaged: what the
rule of picking gains on blocks that it has not seen. Only fresh blocks confirm an arm (method A8).
"""

import math
from collections.abc import Container, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from app.domain.comparison import MetricComparison
from app.domain.manifest import Manifest
from app.domain.statistics import Floats

BLOCKS_MIN = 3


class Selection(BaseModel):
    """The best of several arms, over the geometric mean of all primary ratios. A point estimate: it has no interval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    among: tuple[str, ...]
    ratio: float
    """As measured on the blocks that picked it: flattered."""
    ratio_left_out: float
    """Of the rule of picking, not of ``arm``: the mean, over blocks, of the arm that is best in the others."""
    sentence: str


def selection(
    manifest: Manifest, comparisons: Sequence[MetricComparison], complete: int, *, invalid: Container[str] = ()
) -> Selection | None:
    """``None`` where there is nothing to pick from, or not every one of the ``complete`` blocks tells every ratio.

    Nobody picks an ``invalid`` arm, however fast it seems.
    """
    arms = tuple(arm.name for arm in manifest.decided if arm.name not in invalid)
    ratios = [[c.log_ratios for c in comparisons if c.primary and c.arm == arm] for arm in arms]
    blocks = {len(one) for arm in ratios for one in arm}  # as many each is not enough: they may lack different ones
    if len(arms) <= 1 or blocks != {complete} or complete < BLOCKS_MIN or len({len(arm) for arm in ratios}) != 1:
        return None
    merit = np.asarray(ratios, dtype=np.float64).mean(axis=1)
    best = int(merit.mean(axis=1).argmax())
    ratio, left_out = math.exp(merit[best].mean()), math.exp(float(left_out_mean(merit)))
    return Selection(
        arm=arms[best],
        among=arms,
        ratio=ratio,
        ratio_left_out=left_out,
        sentence=(
            f"{arms[best]} is the best of {len(arms)} arms, with {ratio:.3f} times target-only's speed on the blocks "
            f"that it was picked by. The best of the other blocks, whichever arm it is, has {left_out:.3f} in the "
            f"block left out. Confirm it in fresh blocks: the same manifest with {arms[best]} alone and another "
            "schedule_seed."
        ),
    )


def left_out_mean(log_ratios: npt.ArrayLike) -> Floats:
    """The mean, over blocks, of the ratio in it of the arm that is best in the others (… x arms x blocks)."""
    values = np.asarray(log_ratios, dtype=np.float64)
    others = values.sum(axis=-1, keepdims=True) - values
    best = others.argmax(axis=-2)
    return np.take_along_axis(values, best[..., None, :], axis=-2)[..., 0, :].mean(axis=-1)
