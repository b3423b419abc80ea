"""What an A/A experiment says of its host: whether it is too noisy, and whether what it calls detectable is found."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from app.domain.power import POWER, detectable_in_sds
from benchmarks.statistics.figures import POWER_OFF_MAX, Figure
from benchmarks.statistics.twins import aa_detectable, t_interval
from benchmarks.statistics.verdicts import DELTA

BLOCKS: Final = (5, 8)
CONDITIONS: Final = (2, 4, 8)
"""Workloads x loads of the A/A experiment; both regimes are at least two."""
SURE: Final = 0.9


def figures(experiments: int, seed: int) -> Iterator[Figure]:
    """Of hosts whose noise is known."""
    for blocks in BLOCKS:
        for conditions in CONDITIONS:
            rng = np.random.default_rng([seed, blocks, conditions, 7])
            where = f"{blocks} blocks, {conditions} conditions"
            unit = rng.standard_normal((experiments, conditions, blocks))
            for times, words, low, high in ((2.0, "twice", SURE, 1.0), (0.5, "half", 0.0, 1 - SURE)):
                sd = math.log1p(times * DELTA) / detectable_in_sds(blocks)
                noisy = aa_detectable(sd * unit) > DELTA
                what = f"a host that finds {words} the margin is called too noisy"
                yield Figure("A/A", what, where, float(noisy.mean()), experiments, low, high)
            effect = np.log1p(aa_detectable(unit))
            later = t_interval(effect[:, None] + rng.standard_normal((experiments, blocks)))
            found = float((~later.covers(0.0)).mean())
            what = "a later effect that A/A calls detectable is found"
            yield Figure("A/A", what, where, found, experiments, POWER - POWER_OFF_MAX)
