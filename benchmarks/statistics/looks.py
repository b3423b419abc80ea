"""Experiments that may stop at planned looks: false words, intervals after stopping, and how often they stop."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from app.domain.looks import PlannedLook, spending
from app.domain.power import power_beyond
from app.domain.statistics import CONFIDENCE, Floats
from app.domain.vocabulary import VerdictWord
from benchmarks.statistics.figures import Figure, Truths, coverage, false_words, power
from benchmarks.statistics.twins import at_looks, t_interval
from benchmarks.statistics.verdicts import DECLARED, DELTA, FAMILIES, MARGIN, NOISES

DESIGNS: Final[tuple[tuple[int, tuple[int, ...]], ...]] = ((8, (5,)), (12, (5, 8)), (20, (5, 10, 15)))
"""Blocks, and looks before the end."""
_SD: Final = 0.03


def figures(experiments: int, seed: int) -> Iterator[Figure]:
    """Every design, family and kind of noise."""
    for blocks, early in DESIGNS:
        looks = spending(blocks, early, CONFIDENCE)
        for name, noise in NOISES.items():
            for family in FAMILIES:
                rng = np.random.default_rng([seed, blocks, family, 4])
                where = f"looks at {', '.join(map(str, early))} of {blocks} blocks, family of {family}, {name}"
                yield from _families(where, noise((experiments, family, blocks), rng), looks)
        yield from _alone(f"looks at {', '.join(map(str, early))} of {blocks} blocks", experiments, looks, seed)


def _families(where: str, unit: Floats, looks: Sequence[PlannedLook]) -> Iterator[Figure]:
    """``unit``: noise around 0, experiments x family x blocks; of each kind of truth as much as shows errors."""
    at_margin = at_looks(MARGIN + 0.02 * unit, looks, delta=DELTA)
    equal = np.any(at_margin.words == "EQUIVALENT", axis=-1)
    yield false_words("with looks: EQUIVALENT where the truth is the margin", where, equal, DECLARED)
    none = at_looks(0.1 * unit, looks, delta=DELTA)
    helped = np.any(np.isin(none.words, ["HELPS", "HURTS"]), axis=-1)
    yield false_words("with looks: HELPS or HURTS where the truth is none", where, helped, DECLARED)
    if unit.shape[1] > 1:
        yield false_words("with looks: any false word, truths mixed", where, _mixed(unit, looks), DECLARED)
    clear = at_looks(2 * MARGIN + _SD * unit, looks, delta=DELTA)
    together = np.all(clear.interval.covers(2 * MARGIN), axis=-1)
    yield coverage("ratios of a family, after stopping", where, together, exact=True)


def _mixed(unit: Floats, looks: Sequence[PlannedLook]) -> Truths:
    """A quarter each: clearly better, at the margin, none, and worse by the margin."""
    truth = np.resize([0.3, MARGIN, 0.0, -MARGIN], unit.shape[1])
    said = at_looks(truth[:, None] + 0.02 * unit, looks, delta=DELTA).words
    matters = np.abs(truth) >= MARGIN
    right = np.where(truth > 0, VerdictWord.HELPS, VerdictWord.HURTS)
    wrong = np.where(matters, (said != right) & (said != "INCONCLUSIVE"), (said == "HELPS") | (said == "HURTS"))
    return np.any(wrong, axis=-1)


def _alone(where: str, experiments: int, looks: Sequence[PlannedLook], seed: int) -> Iterator[Figure]:
    """One comparison: how often a look stops it, as planned, and what stopping without paying for it does."""
    unit = np.random.default_rng([seed, looks[-1].blocks, 5]).standard_normal((experiments, 1, looks[-1].blocks))
    first, effect = looks[0], 2 * MARGIN
    stopped = at_looks(effect + _SD * unit, looks, delta=DELTA)
    planned = power_beyond(effect, _SD, first.blocks, margin=MARGIN, confidence=first.confidence)
    helps = (stopped.look == 0) & (stopped.words[:, 0] == "HELPS")
    yield power("HELPS at the first look", where, helps, planned)
    for what, each, rival in (
        ("a ratio, stopped once it differs", looks, False),
        ("a ratio, stopped once it differs, 95% at each look", [PlannedLook(n, CONFIDENCE) for n, _ in looks], True),
    ):
        yield coverage(what, where, ~_differs_at_any(unit[:, 0], each), exact=True, rival=rival)


def _differs_at_any(unit: Floats, looks: Sequence[PlannedLook]) -> Truths:
    """Whether any look's interval leaves out the truth, which is none: it is then stopped and believed."""
    missed = [~t_interval(unit[:, : look.blocks], look.confidence).covers(0.0) for look in looks]
    return np.any(missed, axis=0)
