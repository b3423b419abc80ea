"""When each request of a load point is due: integer offsets, frozen into the trace.

The seed is used once, when a trace is made. What is replayed are the integers, so no change
of a random generator can change the load. New kinds draw only from ``random()``, which Python keeps.
"""

import math
import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import accumulate, islice
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S

BURSTINESS_MIN, BURSTINESS_MAX = 0.05, 100.0


class ArrivalKind(StrEnum):
    """How made arrivals are spread over a load point's duration."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    RAMP = "ramp"


class ArrivalNote(BaseModel):
    """What a trace says of how a load point's offsets came to be. A label: what counts are the offsets themselves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ArrivalKind | Literal["recorded", "scaled", "thinned"]
    """``thinned``: a share of one point process that other load points share (see ``shared``)."""
    seed: int | None = None
    burstiness: Annotated[float, Field(gt=0)] | None = None
    """Shape of the gamma gaps: 1 is Poisson, below 1 is burstier. Of ``gamma`` only."""
    end_rate_rps: Annotated[float, Field(ge=0)] | None = None
    """Of ``ramp`` only: the rate at the end; the load's ``rate_rps`` is the mean."""
    speed: Annotated[float, Field(gt=0)] | None = None
    """Of ``scaled``: recorded time passes this many times faster."""
    shared: str | None = None
    """The name of the point process, where several load points take their arrivals from one."""


def arrivals(
    kind: ArrivalKind,
    *,
    rate_rps: float,
    duration_ns: int,
    seed: int,
    burstiness: float = 1.0,
    end_rate_rps: float | None = None,
) -> tuple[int, ...]:
    """Sorted offsets in ``[0, duration_ns)``, exactly ``round(rate * duration)`` of them.

    ``constant`` ignores the seed; ``burstiness`` is for ``gamma``; ``ramp`` goes from ``rate_rps`` to ``end_rate_rps``
    and its count is that of the mean rate. Raises ``DomainError`` for what is not positive, or where no request fits.
    """
    if kind is ArrivalKind.RAMP:
        return _ramp(rate_rps, rate_rps if end_rate_rps is None else end_rate_rps, duration_ns, seed)
    count = offered_count(rate_rps, duration_ns)
    if kind is ArrivalKind.CONSTANT:
        return tuple(index * duration_ns // count for index in range(count))
    if kind is ArrivalKind.GAMMA:
        return _gamma(count, duration_ns, seed, burstiness)
    return _poisson(count, duration_ns, seed)


def offered_count(rate_rps: float, duration_ns: int) -> int:
    """How many requests a rate offers in a duration; raises ``DomainError`` where that is none."""
    for field, value in (("rate_rps", rate_rps), ("duration_ns", duration_ns)):
        if not value > 0:
            raise DomainError.of(field, f"{value} is not positive", "give a rate and a duration above 0")
    count = round(rate_rps * duration_ns / NS_PER_S)
    if count < 1:
        raise DomainError.of("duration_ns", "no request would fall due", "raise the rate or the duration")
    return count


def recorded(timestamps_ns: Sequence[int]) -> tuple[int, ...]:
    """Recorded times as offsets from the earliest one, sorted. Raises ``DomainError`` without any."""
    if not timestamps_ns:
        raise DomainError.of("timestamps_ns", "there is no recorded arrival", "give at least one")
    first = min(timestamps_ns)
    return tuple(sorted(at_ns - first for at_ns in timestamps_ns))


def scaled(offsets_ns: Sequence[int], speed: float) -> tuple[int, ...]:
    """The same pattern, ``speed`` times faster: every gap shrinks alike, so bursts stay bursts."""
    if not (speed > 0 and math.isfinite(speed)):
        raise DomainError.of("speed", f"{speed} is not a positive number", "give a factor above 0, such as 2")
    return tuple(math.floor(offset / speed) for offset in offsets_ns)


def gap_variation(offsets_ns: Sequence[int]) -> float | None:
    """Coefficient of variation of the gaps: 0 is constant, 1 Poisson, above 1 bursty; ``None`` below three arrivals."""
    gaps = [later - earlier for earlier, later in zip(offsets_ns, islice(offsets_ns, 1, None), strict=False)]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    if len(gaps) <= 1 or not mean:
        return None
    return math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)) / mean


def _poisson(count: int, duration_ns: int, seed: int) -> tuple[int, ...]:
    """A Poisson process given its count: the order statistics of independent uniform times.

    Fixing the count makes the offered rate the stated one in every trace, short ones too.
    """
    rng = random.Random(seed)
    return tuple(sorted(rng.randrange(duration_ns) for _ in range(count)))


def _gamma(count: int, duration_ns: int, seed: int, burstiness: float) -> tuple[int, ...]:
    """A renewal process with gamma gaps given its count: ``count + 1`` gaps, stretched to fill the duration."""
    if not BURSTINESS_MIN <= burstiness <= BURSTINESS_MAX:
        message = f"{burstiness} is not between {BURSTINESS_MIN} and {BURSTINESS_MAX}"
        raise DomainError.of("burstiness", message, "1 is Poisson, 0.25 bursty, 4 nearly even")
    draw = random.Random(seed).random
    elapsed = list(accumulate(_gamma_draw(draw, burstiness) for _ in range(count + 1)))
    return tuple(_place(at / elapsed[-1], duration_ns) for at in elapsed[:-1])


def _gamma_draw(draw: Callable[[], float], shape: float) -> float:
    """One draw of Gamma(shape, 1) by Marsaglia and Tsang's rejection, from uniform draws alone."""
    if shape < 1:
        return _gamma_draw(draw, shape + 1) * (1 - draw()) ** (1 / shape)
    d = shape - 1 / 3
    while True:
        normal = math.sqrt(-2 * math.log(1 - draw())) * math.cos(2 * math.pi * draw())
        v = (1 + normal / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(1 - draw()) < normal * normal / 2 + d * (1 - v + math.log(v)):
            return d * v


def _ramp(start_rps: float, end_rps: float, duration_ns: int, seed: int) -> tuple[int, ...]:
    """A Poisson process whose rate changes evenly, given its count: uniform shares of the expected count, inverted."""
    if start_rps < 0 or end_rps < 0:
        raise DomainError.of("end_rate_rps", "a rate cannot be negative", "give rates of 0 or more")
    count = offered_count((start_rps + end_rps) / 2, duration_ns)
    draw = random.Random(seed).random
    shares = sorted(draw() for _ in range(count))
    if start_rps == end_rps:
        return tuple(_place(share, duration_ns) for share in shares)
    squares = end_rps**2 - start_rps**2
    times = ((math.sqrt(start_rps**2 + squares * share) - start_rps) / (end_rps - start_rps) for share in shares)
    return tuple(_place(time, duration_ns) for time in times)


def _place(share: float, duration_ns: int) -> int:
    return min(math.floor(share * duration_ns), duration_ns - 1)
