"""The rows that the benchmark prints: what was done, what came of it, and the bar that it is held to."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """``hits`` of ``tries``, with the exact interval of Clopper and Pearson."""

    hits: int
    tries: int

    @property
    def interval(self) -> tuple[float, float]:
        """Of the probability of a hit; without a try nothing is known."""
        if self.tries == 0:
            return 0.0, 1.0
        found = stats.binomtest(self.hits, self.tries).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.hits} of {self.tries} [{low:.3f}, {high:.3f}]"


@dataclass(frozen=True, slots=True)
class Row:
    """One line. ``met`` is ``None`` where there is no bar."""

    what: str
    found: str
    bar: str = ""
    met: bool | None = None

    @property
    def word(self) -> str:
        return "" if self.met is None else "ok" if self.met else "SHORT"

    @property
    def cells(self) -> tuple[str, str, str, str]:
        return self.what, self.found, self.bar, self.word


@dataclass(frozen=True, slots=True)
class Part:
    """One table."""

    title: str
    rows: Sequence[Row]

    def terminal(self) -> Table:
        table = Table("", "found", "bar", "", title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*row.cells)
        return table

    def markdown(self) -> str:
        lines = [("what", "found", "bar", ""), ("---",) * 4, *(row.cells for row in self.rows)]
        cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in line] for line in lines]
        return f"### {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in cells)


def alarms(what: str, share: Share, rate: float) -> Row:
    """False alarms may not be more than the declared rate explains: the interval must reach down to it."""
    bar = f"at most {rate:.2%} each"
    return Row(what, str(share), bar, share.interval[0] <= rate)


def caught(what: str, share: Share, power: float, more: str = "") -> Row:
    """A defect must be caught with the declared power: the interval must reach up to it, the share near it."""
    return Row(what, f"{share}{more}", f"power {power:.0%}", share.interval[1] >= power)
