"""When each request of a load point is due: integer offsets, frozen into the trace.

The seed is used once, when a trace is made. What is replayed are the integers, so no change
of a random generator can change the load.
"""

import random
from enum import StrEnum

from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S


class ArrivalKind(StrEnum):
    """How arrivals are spread over a load point's duration."""

    CONSTANT = "constant"
    POISSON = "poisson"


def arrivals(kind: ArrivalKind, *, rate_rps: float, duration_ns: int, seed: int) -> tuple[int, ...]:
    """Sorted offsets in ``[0, duration_ns)``, exactly ``round(rate * duration)`` of them.

    ``constant`` ignores the seed. Raises ``DomainError`` for a rate or duration that is not positive,
    or where no request would fit.
    """
    count = _count(rate_rps, duration_ns)
    if kind is ArrivalKind.CONSTANT:
        return tuple(index * duration_ns // count for index in range(count))
    return _poisson(count, duration_ns, seed)


def _poisson(count: int, duration_ns: int, seed: int) -> tuple[int, ...]:
    """A Poisson process given its count: the order statistics of independent uniform times.

    Fixing the count makes the offered rate the stated one in every trace, short ones too.
    """
    rng = random.Random(seed)
    return tuple(sorted(rng.randrange(duration_ns) for _ in range(count)))


def _count(rate_rps: float, duration_ns: int) -> int:
    for field, value in (("rate_rps", rate_rps), ("duration_ns", duration_ns)):
        if not value > 0:
            raise DomainError.of(field, f"{value} is not positive", "give a rate and a duration above 0")
    count = round(rate_rps * duration_ns / NS_PER_S)
    if count < 1:
        raise DomainError.of("duration_ns", "no request would fall due", "raise the rate or the duration")
    return count
