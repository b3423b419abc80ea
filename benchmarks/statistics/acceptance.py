"""Intervals of acceptance, on requests that differ in length and in how well they can be drafted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.clustered import clopper_pearson, ratio_limits
from app.domain.paired import bonferroni
from app.domain.statistics import CONFIDENCE, Floats
from benchmarks.statistics.figures import Figure, Truths, coverage
from benchmarks.statistics.twins import Interval, wald

K: Final = 4
REQUESTS: Final = (10, 30, 100)
CHUNK: Final = 2000


@dataclass(frozen=True, slots=True)
class World:
    """Each request accepts a drafted token with its own chance, from Beta(``a``, ``b``); steps are lognormal."""

    name: str
    a: float
    b: float
    length_sd: float

    def moment(self, power: int) -> float:
        """Of the chance: that ``power`` tokens in a row are accepted."""
        return float(np.prod([(self.a + i) / (self.a + self.b + i) for i in range(power)]))


WORLDS: Final = (
    World("a draft model", 2.5, 1.5, 0.5),
    World("near 1, lengths differ", 12.0, 1.0, 0.8),
    World("n-grams: most accept nothing, heavy lengths", 0.5, 2.0, 1.2),
)


def figures(experiments: int, seed: int) -> Iterator[Figure]:
    """The rate, a length and both bands; the binomial rival."""
    for world in WORLDS:
        for requests in REQUESTS:
            found: dict[str, list[Truths]] = {}
            rng = np.random.default_rng([seed, requests])
            for _ in range(max(experiments // CHUNK, 1)):
                for name, covered in _covered(world, requests, rng).items():
                    found.setdefault(name, []).append(covered)
            yield from _rows(f"{requests} requests, {world.name}", found)
    yield from _exact(experiments, np.random.default_rng([seed, 1]))


def _rows(where: str, found: dict[str, list[Truths]]) -> Iterator[Figure]:
    for name, covered in found.items():
        simultaneous, rival = "band" in name, "Wald" in name
        yield coverage(name, where, np.concatenate(covered), exact=simultaneous, rival=rival)


def draw(world: World, requests: int, rng: np.random.Generator, sets: int = CHUNK) -> tuple[Floats, Floats]:
    """Steps (sets x requests), and how many of them accept more than ``j`` (sets x requests x positions)."""
    chance = rng.beta(world.a, world.b, (sets, requests))
    steps = np.maximum(rng.lognormal(2.5, world.length_sd, (sets, requests)).astype(np.int64), 2)
    alive, hits = steps, np.empty((sets, requests, K), dtype=np.int64)
    for position in range(K):
        alive = rng.binomial(alive, chance)
        hits[..., position] = alive
    return steps.astype(np.float64), hits.astype(np.float64)


def _covered(world: World, requests: int, rng: np.random.Generator) -> dict[str, Truths]:
    steps, hits = draw(world, requests, rng)
    accepted, together = hits.sum(-1), bonferroni(CONFIDENCE, K)
    length = sum(world.moment(j + 1) for j in range(K))
    band, conditional = np.ones(len(steps), dtype=bool), np.ones(len(steps), dtype=bool)
    before = steps
    for position in range(K):
        at, truth = hits[..., position], world.moment(position + 1)
        band &= _holds(at, steps, 1.0, truth, together)
        conditional &= _holds(at, before, 1.0, truth / world.moment(position), together)
        before = at
    return {
        "acceptance rate": _holds(accepted, K * steps, 1.0, length / K),
        "accepted length": _holds(accepted, steps, K, length),
        "band over positions": band,
        "conditional band over positions": conditional,
        "acceptance rate by binomial Wald": wald(accepted.sum(-1), K * steps.sum(-1)).covers(length / K),
    }


def _holds(above: Floats, below: Floats, most: float, truth: float, confidence: float = CONFIDENCE) -> Truths:
    """Covered; or no interval is stated, where requests show no spread."""
    limits = Interval(*ratio_limits(above, below, most, confidence))
    told = np.isfinite(limits.low) & np.isfinite(limits.high) & (limits.low < limits.high)
    return limits.covers(truth) | ~told


def _exact(experiments: int, rng: np.random.Generator) -> Iterator[Figure]:
    for share in (0.5, 0.9, 0.99):
        limits = clopper_pearson(rng.binomial(120, share, experiments), 120)
        yield coverage("share of answers", f"120 answers, {share:.0%}", Interval(*limits).covers(share), exact=True)
