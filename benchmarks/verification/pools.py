"""Comparisons drawn from what servers answered once: parts of pools, so that no answer counts twice in one."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.domain.sampling_equality import SampledEquality, SamplingWord, judge_samples
from app.domain.sampling_tests import Sample, Samples, Stated
from benchmarks.verification.rows import Share

ARM = "arm"


@dataclass(frozen=True, slots=True)
class Known:
    """What every comparison is made with: the control at another temperature, and what the target states."""

    hotter: Samples
    stated: Stated
    samples: int
    """Of each prompt by each side in one comparison; the pools hold more."""


def part(pool: Samples, samples: int, chance: random.Random) -> Samples:
    """So many answers to each prompt; all of them where there are fewer."""
    return {prompt: chance.sample(list(given), min(samples, len(given))) for prompt, given in pool.items()}


def parted(one: Samples, other: Samples, samples: int, chance: random.Random) -> tuple[Samples, Samples]:
    """Two disjoint parts of both pools together, which are as like as samples can be."""
    together: dict[object, list[Sample]] = {prompt: [*given, *other.get(prompt, ())] for prompt, given in one.items()}
    drawn = part(together, 2 * samples, chance)
    halves = {prompt: (given[: len(given) // 2], given[len(given) // 2 :]) for prompt, given in drawn.items()}
    return {p: half for p, (half, _) in halves.items()}, {p: half for p, (_, half) in halves.items()}


def compared(known: Known, ours: Samples, target: Samples) -> SampledEquality:
    return judge_samples({ARM: ours}, target, known.hotter, known.stated)[0]


Draw = Callable[[random.Random], tuple[Samples, Samples]]
"""One comparison's arm and target."""


def exchanged(known: Known, one: Samples, other: Samples) -> Draw:
    """Of servers that are to be alike: which answer is whose is dealt anew."""
    return lambda chance: parted(one, other, known.samples, chance)


def as_they_are(known: Known, ours: Samples, target: Samples) -> Draw:
    """Of an arm and target-only, each with its own answers."""
    return lambda chance: (part(ours, known.samples, chance), part(target, known.samples, chance))


@dataclass(frozen=True, slots=True)
class Found:
    """What so many comparisons said."""

    equalities: tuple[SampledEquality, ...]

    @property
    def failed(self) -> Share:
        hits = sum(one.word is SamplingWord.FAIL for one in self.equalities)
        return Share(hits, len(self.equalities))

    @property
    def passed(self) -> Share:
        hits = sum(one.word is SamplingWord.PASS for one in self.equalities)
        return Share(hits, len(self.equalities))

    @property
    def rejecting(self) -> Mapping[str, int]:
        """Test → in how many comparisons it rejected, the most frequent first."""
        names = [test.name for one in self.equalities for test in one.tests if test.rejected]
        return {str(name): names.count(name) for name in sorted(set(names), key=names.count, reverse=True)}

    def covers(self, ratio: float) -> Share:
        """In how many the interval of the temperature holds the true ratio."""
        limits = [(one.temperature_low, one.temperature_high) for one in self.equalities]
        held = [low <= ratio <= high for low, high in limits if low is not None and high is not None]
        return Share(sum(held), len(held))


def repeated(known: Known, draw: Draw, comparisons: int, seed: int) -> Found:
    """The same comparison on other draws."""
    chance = random.Random(seed)
    return Found(tuple(compared(known, *draw(chance)) for _ in range(comparisons)))
