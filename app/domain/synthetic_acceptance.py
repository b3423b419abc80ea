"""What an engine that accepts by a given schedule must show: the known answer for everything that reads acceptance.

vLLM's ``synthetic`` rejection sampling takes either a mean accepted length or one unconditional rate per position.
"""

from collections.abc import Sequence
from itertools import pairwise


def rates_of(length: float, k: int) -> tuple[float, ...]:
    """Unconditional rates by position for a mean ``length``, which counts the target's own token.

    vLLM's schedule of least variance: with ``a = length - 1``, ``floor(a)`` times 1, then ``a - floor(a)``, then 0.
    """
    if not 1 <= length <= k + 1:
        raise ValueError(f"a mean length of {length} is not within 1 and {k + 1}")
    accepted = length - 1
    return tuple(min(1.0, max(0.0, accepted - position)) for position in range(k))


def length_of(rates: Sequence[float]) -> float:
    """``1 + sum of u_j``: the mean accepted length with the target's own token."""
    return 1 + sum(rates)


def conditional_of(rates: Sequence[float]) -> tuple[float | None, ...]:
    """``c_0 = u_0``, ``c_j = u_j / u_(j-1)``; ``None`` behind a position that is never accepted."""
    return tuple(now / before if before else None for before, now in pairwise((1.0, *rates)))


def histogram_of(rates: Sequence[float], drafts: int) -> tuple[int, ...]:
    """How many of ``drafts`` steps accept exactly 0, 1, … k tokens, rounded to whole steps."""
    at_least = [round(rate * drafts) for rate in (1.0, *rates, 0.0)]
    return tuple(before - now for before, now in pairwise(at_least))
