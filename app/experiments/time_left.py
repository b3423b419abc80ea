"""How long an experiment still takes, and how sure that is, from the sessions that it has behind it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

OBSERVATIONS_MIN: Final = 2
"""One duration has no range."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds. ``low`` and ``high`` if each session takes as long as the fastest and slowest of its arm so far."""

    expected_s: float
    low_s: float | None
    high_s: float | None


def time_left(owed: Sequence[str], walls: Mapping[str, Sequence[float]], spent_s: float) -> TimeLeft | None:
    """For the arms of the sessions still owed; ``walls`` of those that succeeded, ``spent_s`` on the open one so far.

    An arm that was not seen (for its range: not twice) is taken for any of them; ``None`` while none has succeeded.
    """
    every = [wall for of_arm in walls.values() for wall in of_arm]
    if not every:
        return None
    expected = sum(fmean(walls.get(arm) or every) for arm in owed)
    if len(every) < OBSERVATIONS_MIN:
        return TimeLeft(max(0.0, expected - spent_s), None, None)
    seen = [_range_of(walls.get(arm, ()), every) for arm in owed]
    low, high = sum(map(min, seen)), sum(map(max, seen))
    return TimeLeft(max(0.0, expected - spent_s), max(0.0, low - spent_s), max(0.0, high - spent_s))


def _range_of(of_arm: Sequence[float], every: Sequence[float]) -> Sequence[float]:
    return of_arm if len(of_arm) >= OBSERVATIONS_MIN else every
