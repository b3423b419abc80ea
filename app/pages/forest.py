"""A shared axis for the interval strips of a table: ratios on a log scale, as percentages of the width."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.report import Estimate
from app.pages.wording import TIMES

TICKS = (
    (1.6, (0.67, 0.8, 1.0, 1.25, 1.5)),
    (3.4, (0.33, 0.5, 0.67, 1.0, 1.5, 2.0, 3.0)),
    (math.inf, (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)),
)
"""Up to which reach of the axis → the round ratios that have room on it."""
SPAN_MIN = 1.35
"""The axis reaches at least this ratio on both sides, so that small effects look small."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One estimate on the axis, in percent; ``None`` where unknown.

    ``span`` is its interval; ``wide`` the simultaneous one, which verdicts rest on. Ends that
    lie off the axis are held at its edge.
    """

    value: float | None = None
    span: tuple[float, float] | None = None
    wide: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high`` (ratios); ``band`` is the margin within which effects are not worth acting on."""

    low: float
    high: float
    delta: float

    def place(self, ratio: float) -> float:
        """Where ``ratio`` lies, in percent of the width, held inside the strip."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    @property
    def band(self) -> tuple[float, float]:
        """Left edge and width of the margin band, in percent."""
        left, right = self.place(1 / (1 + self.delta)), self.place(1 + self.delta)
        return left, round(right - left, 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Position and label of a few round ratios, 1 always among them."""
        round_ratios = next(ratios for reach, ratios in TICKS if self.high <= reach)
        return tuple((self.place(t), f"{t:g}{TIMES}") for t in round_ratios if self.low * 1.04 < t < self.high / 1.04)

    def strip(self, estimate: Estimate | None, wide_low: float | None = None, wide_high: float | None = None) -> Strip:
        """The estimate's place; nothing is drawn for an unknown value."""
        if estimate is None or estimate.value is None or estimate.value <= 0:
            return Strip()
        span = self._span(estimate.low, estimate.high)
        return Strip(self.place(estimate.value), span, self._span(wide_low, wide_high))

    def _span(self, low: float | None, high: float | None) -> tuple[float, float] | None:
        if low is None or high is None or high <= 0:
            return None
        return self.place(max(low, self.low)), self.place(high)


def axis_for(estimates: Iterable[Estimate | None], delta: float) -> Axis:
    """An axis symmetric about 1 in the log, wide enough for the values and, within reason, their intervals."""
    reach = SPAN_MIN
    for e in estimates:
        if e is None or e.value is None or e.value <= 0:
            continue
        ends = (x for x in (e.value, e.low, e.high) if x is not None and x > 0)
        reach = max(reach, min(max(max(x, 1 / x) for x in ends), 4 * max(e.value, 1 / e.value)))
    reach *= 1.06
    return Axis(1 / reach, reach, delta)
