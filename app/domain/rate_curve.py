"""Load points that share arrivals: each takes its part of one point process.

A lower rate's arrivals are among those of every higher rate, so that two points of a curve differ in
rate and not also in luck. Thinning makes a bursty process more even; ``arrival.scaled`` keeps its shape.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S


@dataclass(frozen=True, slots=True)
class PointProcess:
    """One realisation of arrivals, sorted offsets in ``[0, duration_ns)``; the seed decides which points go first."""

    offsets_ns: tuple[int, ...]
    duration_ns: int
    seed: int

    def __post_init__(self) -> None:
        if not self.offsets_ns or not 0 <= min(self.offsets_ns) <= max(self.offsets_ns) < self.duration_ns:
            raise DomainError.of("offsets_ns", "there are none inside the duration", "give offsets in [0, duration)")

    @property
    def rate_rps(self) -> float:
        """The rate of the process itself."""
        return len(self.offsets_ns) * NS_PER_S / self.duration_ns

    def at_rate(self, rate_rps: float) -> tuple[int, ...]:
        """Exactly ``round(rate * duration)`` arrivals: below the own rate thinned, above it superposed.

        Superposed are further copies of the process, each shifted around the duration by a seeded offset, so that
        their bursts do not coincide. Raises ``DomainError`` where no arrival would be left.
        """
        count = round(rate_rps * self.duration_ns / NS_PER_S) if rate_rps > 0 else 0
        if count < 1:
            raise DomainError.of("rate_rps", f"at {rate_rps} requests/s none would fall due", "raise it")
        layers = [self._layer(index) for index in range(math.ceil(count / len(self.offsets_ns)))]
        whole = [at_ns for layer in layers[:-1] for _, at_ns in layer]
        first_marked = sorted(layers[-1])[: count - len(whole)]
        return tuple(sorted([*whole, *(at_ns for _, at_ns in first_marked)]))

    def _layer(self, index: int) -> list[tuple[float, int]]:
        """Copy number ``index`` of the process as (mark, offset); copy 0 is the process itself."""
        draw = random.Random(f"{self.seed}/{index}").random
        shift = math.floor(draw() * self.duration_ns) if index else 0
        return [(draw(), at_ns) for at_ns in self._shifted(shift)]

    def _shifted(self, shift: int) -> Iterator[int]:
        return ((at_ns + shift) % self.duration_ns for at_ns in self.offsets_ns)
