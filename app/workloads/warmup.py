"""Which rows warm a server up: never measured, and covering every stratum as far as their number allows."""

from collections.abc import Sequence

import numpy as np

from app.workloads.spool import Integers

WARMUP_DEFAULT = 16
WARMUP_SHARE = 10
"""By default at most one row in ten, so that a small file is not used up."""

Labels = tuple[tuple[str, str], ...]


def warmup_size(wish: int | None, rows: int) -> int:
    """How many rows the warm-up takes."""
    return min(WARMUP_DEFAULT, rows // WARMUP_SHARE) if wish is None else wish


def pick_warmup(strata: Integers, combinations: Sequence[Labels], size: int) -> Integers:
    """Positions of ``size`` rows: first those that bring a label not yet covered, then the earliest others; sorted."""
    picked = _covering(strata, combinations, size)
    others = np.setdiff1d(np.arange(len(strata)), picked)
    return np.sort(np.concatenate([picked, others[: size - len(picked)]]))


def _covering(strata: Integers, combinations: Sequence[Labels], size: int) -> Integers:
    numbers, first_places = np.unique(strata, return_index=True)
    covered: set[tuple[str, str]] = set()
    picked: list[int] = []
    for place, number in sorted(zip(first_places.tolist(), numbers.tolist(), strict=True)):
        labels = combinations[number]
        if len(picked) < size and not covered.issuperset(labels):
            covered.update(labels)
            picked.append(place)
    return np.array(picked, dtype=np.int64)
