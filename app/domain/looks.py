"""How much of the declared error each planned look may spend: Lan and DeMets' spending after O'Brien and Fleming.

``spent(t) = 2 - 2 Phi(z / sqrt(t))`` up to the share ``t`` of the planned blocks (method A7). Each look is held to what
it adds, so that the looks' errors together are at most the declared one, whatever the tests at them are and however
they depend on each other: no boundary rests on normal statistics, and an interval at a look is its own repeated one.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from scipy import stats

from app.domain.manifest import Manifest


class PlannedLook(NamedTuple):
    """A look after ``blocks`` blocks, and the confidence at which it is taken."""

    blocks: int
    confidence: float

    @property
    def error(self) -> float:
        """What it may spend."""
        return 1 - self.confidence


def spent(share: float, error: float) -> float:
    """Of the declared ``error`` after that share of the blocks."""
    return 2 * float(stats.norm.sf(float(stats.norm.isf(error / 2)) / math.sqrt(share)))


def spending(blocks: int, looks: Sequence[int], confidence: float) -> tuple[PlannedLook, ...]:
    """The looks in order; the last is the end. Without looks the end alone, at the declared ``confidence``."""
    if not looks:
        return (PlannedLook(blocks, confidence),)
    error = 1 - confidence
    so_far = [0.0, *(spent(n / blocks, error) for n in looks), error]
    each = (after - before for before, after in pairwise(so_far))
    return tuple(PlannedLook(n, 1 - own) for n, own in zip((*looks, blocks), each, strict=True))


def planned_looks(manifest: Manifest) -> tuple[PlannedLook, ...]:
    """The manifest's."""
    return spending(manifest.blocks, manifest.looks or (), manifest.margins.confidence)


def final_confidence(manifest: Manifest) -> float:
    """The confidence at the end; the declared one without looks."""
    return planned_looks(manifest)[-1].confidence
