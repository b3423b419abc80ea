"""One row of the table, its bar, and the marks that decide the exit status; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

COVERAGE_MIN = 0.93
COVERAGE_MAX = 0.97
POWER_OFF_MAX = 0.03
EXPERIMENTS_MIN = 10_000
LOOK_SLACK = 0.02
"""Below so many experiments chance alone would miss a bar now and then."""

Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Figure:
    """A share of simulated experiments that must lie in ``[low, high]``; of a rival, that should not."""

    group: str
    what: str
    world: str
    found: float
    n: int
    low: float = 0.0
    high: float = 1.0
    rival: bool = False

    @property
    def within(self) -> bool:
        return self.low <= self.found <= self.high

    @property
    def is_short(self) -> bool:
        """A rival that fails is what the table is there to show."""
        return not self.within and not self.rival

    @property
    def mark(self) -> str:
        if self.rival:
            return "holds here" if self.within else "fails"
        return "" if self.within else "SHORT"

    @property
    def bar(self) -> str:
        if self.high == 1:
            return f">= {self.low:.1%}"
        return f"{self.low:.1%} to {self.high:.1%}" if self.low > 0 else f"<= {self.high:.1%}"


def coverage(what: str, world: str, covered: Truths, *, exact: bool, rival: bool = False) -> Figure:
    """``exact``: by its construction; it may cover more than its level where its assumptions are kept or overdone."""
    slack = 0.0 if covered.size >= EXPERIMENTS_MIN else LOOK_SLACK
    low, high = COVERAGE_MIN - slack, 1.0 if exact else COVERAGE_MAX + slack
    return Figure("coverage", what, world, float(covered.mean()), covered.size, low, high, rival)


def false_words(what: str, world: str, wrong: Truths, declared: float, *, rival: bool = False) -> Figure:
    """At most what is declared, give or take what so many experiments themselves leave open (three errors)."""
    slack = 3 * float(np.sqrt(declared * (1 - declared) / wrong.size))
    return Figure("false words", what, world, float(wrong.mean()), wrong.size, 0.0, declared + slack, rival)


def power(what: str, world: str, found: Truths, planned: float) -> Figure:
    """As planned, give or take three points."""
    low, high = planned - POWER_OFF_MAX, min(planned + POWER_OFF_MAX, 1 - 1e-9)
    return Figure("power", what, f"{world}, planned {planned:.1%}", float(found.mean()), found.size, low, high)


def table(figures: Sequence[Figure]) -> Table:
    shown = Table("", "interval or rule", "world", "found", "experiments", "bar", "", box=None, pad_edge=False)
    for f in figures:
        shown.add_row(f.group, f.what, f.world, f"{f.found:.1%}", f"{f.n:,}", f.bar, f.mark)
    return shown


def markdown(figures: Sequence[Figure]) -> str:
    """One line for each interval or rule over all its worlds; the terminal has every world."""
    head = "| | interval or rule | worlds | found, lowest to highest | bar | SHORT |\n|---|---|---|---|---|---|\n"
    kinds: dict[tuple[str, str, str, bool], list[Figure]] = {}
    for f in figures:
        # Every planned power and every planned number of blocks has a bar of its own.
        bar = "planned ± 3 points" if f.group == "power" else f.bar
        what = "blocks needed" if "blocks needed" in f.what else f.what
        kinds.setdefault((f.group, what, bar, f.rival), []).append(f)
    return head + "".join(_line(*kind, rows) for kind, rows in kinds.items())


def _line(group: str, what: str, bar: str, rival: bool, rows: Sequence[Figure]) -> str:  # noqa: FBT001
    low, high = min(f.found for f in rows), max(f.found for f in rows)
    failing = sum(not f.within for f in rows)
    short = f"a rival: fails in {failing}" if rival else str(failing)
    span = f"{low:.1%} to {high:.1%}" if len(rows) > 1 else f"{low:.1%}"
    shown = bar.replace("<=", "≤").replace(">=", "≥")
    return f"| {group} | {what} | {len(rows)} | {span} | {shown} | {short} |\n"
