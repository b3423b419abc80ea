"""Words and powers, on block log-ratios whose truth is known."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from scipy import special, stats

from app.domain.paired import bonferroni
from app.domain.power import blocks_needed, detectable_in_sds, power_beyond, power_equivalent
from app.domain.schedule import arm_orders
from app.domain.selection import left_out_mean
from app.domain.statistics import CONFIDENCE, Floats
from app.domain.vocabulary import VerdictWord
from benchmarks.statistics.figures import Figure, Truths, coverage, false_words, power
from benchmarks.statistics.twins import Words, t_interval, words

DELTA: Final = 0.05
MARGIN: Final = math.log1p(DELTA)
DECLARED: Final = 1 - CONFIDENCE
FAMILIES: Final = (1, 4, 16)
ARMS: Final = 8
SCHEDULES: Final = 1000

Noise = Callable[[tuple[int, ...], np.random.Generator], Floats]


def _light(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return rng.standard_normal(shape)


def _heavy(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return np.asarray(stats.t.rvs(3.0, size=shape, random_state=rng))


def _drifting(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """The host slows down over each block by as much as its noise; the arms come in the order of a real schedule."""
    experiments, family, blocks = shape
    names = [str(arm) for arm in range(family + 1)]
    seeds = rng.integers(0, 2**32, SCHEDULES).tolist()
    places = np.array([[[o.index(n) for n in names] for o in arm_orders(names, blocks, seed)] for seed in seeds])
    late = np.moveaxis(places[..., 1:] - places[..., :1], -1, 1) / family
    return _light(shape, rng) + late[rng.integers(0, SCHEDULES, experiments)]


def _one_baseline(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """All arms of a block are compared with the same run of target-only."""
    baseline = rng.standard_normal((shape[0], 1, shape[2]))
    return (rng.standard_normal(shape) - baseline) / math.sqrt(2)


NOISES: Final[dict[str, Noise]] = {
    "light tails": _light,
    "heavy tails": _heavy,
    "drift": _drifting,
    "correlated": _one_baseline,
}


def figures(experiments: int, blocks: Sequence[int], seed: int) -> Iterator[Figure]:
    """False words of whole families, what their intervals cover together, and power."""
    for name, noise in NOISES.items():
        for n in blocks:
            for family in FAMILIES:
                rng = np.random.default_rng([seed, n, family])
                where = f"{n} blocks, family of {family}, {name}"
                yield from _families(where, noise((experiments, family, n), rng))
    for n in blocks:
        yield from _powers(n, experiments, np.random.default_rng([seed, n, 1]))
    yield from _planned(experiments, np.random.default_rng([seed, 2]))
    yield from _selected(experiments, np.random.default_rng([seed, 3]))


def _families(where: str, unit: Floats) -> Iterator[Figure]:
    """``unit``: noise around 0, experiments x family x blocks."""
    none = words(0.2 * unit, delta=DELTA)
    yield false_words("HELPS or HURTS where the truth is none", where, _any(none, "HELPS", "HURTS"), DECLARED)
    at_margin = words(MARGIN + 0.01 * unit, delta=DELTA)
    yield false_words("EQUIVALENT where the truth is the margin", where, _any(at_margin, "EQUIVALENT"), DECLARED)
    if unit.shape[1] > 1:
        yield false_words("any false word, truths mixed", where, _mixed(unit), DECLARED)
        together = np.all(t_interval(unit, bonferroni(CONFIDENCE, unit.shape[1])).covers(0.0), axis=-1)
        yield coverage("ratios of a family, together", where, together, exact=True)


def _mixed(unit: Floats) -> Truths:
    """A quarter each: clearly better, at the margin, none, and worse by the margin."""
    truth = np.resize([0.3, MARGIN, 0.0, -MARGIN], unit.shape[1])
    said = words(truth[:, None] + 0.02 * unit, delta=DELTA)
    matters = np.abs(truth) >= MARGIN
    right = np.where(truth > 0, VerdictWord.HELPS, VerdictWord.HURTS)
    wrong = np.where(matters, (said != right) & (said != "INCONCLUSIVE"), (said == "HELPS") | (said == "HURTS"))
    return np.any(wrong, axis=-1)


def _any(said: Words, *false: str) -> Truths:
    return np.any(np.isin(said, false), axis=-1)


def _powers(blocks: int, experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    unit, sd, where = rng.standard_normal((experiments, 1, blocks)), 0.03, f"{blocks} blocks, deviation 3%"
    least = detectable_in_sds(blocks) * sd
    yield power("the least detectable effect differs", where, ~t_interval(least + sd * unit).covers(0.0)[:, 0], 0.8)
    for family in (1, 4):
        confidence = bonferroni(CONFIDENCE, family)
        effect = MARGIN + sd * detectable_in_sds(blocks, confidence)
        cleared = t_interval(effect + sd * unit, confidence).low[:, 0] > MARGIN
        planned = power_beyond(effect, sd, blocks, margin=MARGIN, confidence=confidence)
        yield power("HELPS", f"{where}, family of {family}", cleared, planned)
    quiet = MARGIN * math.sqrt(blocks) / (float(special.stdtrit(blocks - 1, 0.95)) + 2.0)
    same = words(quiet * unit, delta=DELTA)[:, 0] == "EQUIVALENT"
    yield power("EQUIVALENT", f"{blocks} blocks, deviation {quiet:.1%}", same, power_equivalent(MARGIN, quiet, blocks))


def _planned(experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    """With as many blocks as the plan asks for."""
    for sd, wanted in ((0.03, 0.8), (0.03, 0.9), (0.08, 0.8), (0.08, 0.9)):
        needed = blocks_needed(sd, MARGIN, power=wanted)
        if needed is not None:
            seen = ~t_interval(MARGIN + sd * rng.standard_normal((experiments, needed))).covers(0.0)
            yield power(
                f"the {needed} blocks needed for {wanted:.0%}",
                f"deviation {sd:.0%}",
                seen,
                power_beyond(MARGIN, sd, needed),
            )


def _selected(experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    """Eight arms that are all as fast as target-only; the best of them is looked at."""
    log_ratios = 0.05 * _one_baseline((experiments, ARMS, 5), rng)
    best = np.take_along_axis(log_ratios, log_ratios.mean(-1).argmax(-1)[:, None, None], 1)[:, 0]
    where = f"5 blocks, best of {ARMS} arms, truth none"
    unseen, seen = float(np.exp(left_out_mean(log_ratios)).mean()), float(np.exp(best.mean(-1)).mean())
    yield Figure("selection", "ratio of the winner in blocks left out / truth", where, unseen, len(best), 0.99, 1.01)
    yield Figure("selection", "ratio of the winner as measured / truth", where, seen, len(best), 0.99, 1.01, rival=True)
    alone, together = t_interval(best), t_interval(best, bonferroni(CONFIDENCE, ARMS))
    yield coverage("ratio of the winner, of a family", where, together.covers(0.0), exact=True)
    fresh = t_interval(0.05 * rng.standard_normal((experiments, 5)))
    yield coverage("ratio of the winner in fresh blocks", where, fresh.covers(0.0), exact=True)
    yield coverage("ratio of the winner, alone", where, alone.covers(0.0), exact=True, rival=True)
    yield false_words("best of k, uncorrected: is faster", where, alone.low > 0, DECLARED / 2, rival=True)
