"""The compare page: one typed query decides what is shown, and its canonical form is the page's address."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.report import ArmResult, Correctness, MetricComparison, Report, Verdict
from app.figures import FIGURES, Figure, View
from app.pages.forest import Axis, Strip, axis_for


class CompareQuery(View):
    """What to compare: the page's whole state."""

    def address(self, path: str) -> str:
        """The canonical address: fixed order, defaults left out."""
        return f"{path}{self.query}"


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One comparison with its place on the table's axis."""

    comparison: MetricComparison
    strip: Strip


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The rows of one workload, load and stratum."""

    workload: str
    load: str
    stratum: str
    rows: tuple[ForestRow, ...]


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """Every arm's own numbers on one workload at one load."""

    workload: str
    load: str
    offered: str
    rows: tuple[ArmResult, ...]


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One line of the answer with its interval and whether the outputs are still right."""

    verdict: Verdict
    strip: Strip
    correctness: Correctness | None


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """The verdicts of one workload at one load."""

    workload: str
    load: str
    regime: str
    offered: str
    rows: tuple[VerdictRow, ...]


def verdict_groups(report: Report) -> tuple[Axis, list[VerdictGroup]]:
    """Verdicts by workload and load in the manifest's order, on one axis."""
    axis = axis_for((v.ratio for v in report.verdicts), report.manifest.margins.delta)
    right = {c.arm: c for c in report.correctness}
    primary = {(c.arm, c.workload, c.load): c for c in report.comparisons if c.primary}
    groups: list[VerdictGroup] = []
    for workload in report.manifest.workloads:
        for load in sorted(report.manifest.loads, key=lambda p: p.level):
            found = [v for v in report.verdicts if (v.workload, v.load) == (workload.name, load.name)]
            rows = tuple(
                _verdict_row(v, axis, primary.get((v.arm, v.workload, v.load)), right.get(v.arm)) for v in found
            )
            groups.append(VerdictGroup(workload.name, load.name, load.regime, load.offered, rows))
    return axis, [g for g in groups if g.rows]


def comparison_groups(report: Report, query: CompareQuery) -> tuple[Axis, list[ForestGroup]]:
    """The chosen metric's ratios by workload, load and stratum, on one axis."""
    chosen = [c for c in report.comparisons if c.metric == query.metric and query.keeps(c)]
    axis = axis_for((c.ratio for c in chosen), report.manifest.margins.delta)
    keys = dict.fromkeys((c.workload, c.load, c.stratum) for c in chosen)
    return axis, [ForestGroup(*key, tuple(ForestRow(c, _strip(axis, c)) for c in _of(chosen, key))) for key in keys]


def result_groups(report: Report, query: CompareQuery) -> list[ResultGroup]:
    """Absolute numbers of every arm: of the asked stratum, or of all strata together."""
    narrowed = query if query.stratum else query.model_copy(update={"stratum": "all"})
    chosen = [r for r in report.results if narrowed.keeps(r)]
    return [
        ResultGroup(workload, load.name, load.offered, rows)
        for workload in report.strata
        for load in sorted(report.manifest.loads, key=lambda p: p.level)
        if (rows := _in_arm_order(report, [r for r in chosen if (r.workload, r.load) == (workload, load.name)]))
    ]


def drawn_figures(report: Report, view: View) -> list[Figure]:
    """Every figure that has something to show, in words and numbers; the page fetches the drawing itself."""
    return [figure for make in FIGURES.values() if (figure := make(report, view)).rows]


def _verdict_row(
    verdict: Verdict, axis: Axis, comparison: MetricComparison | None, correctness: Correctness | None
) -> VerdictRow:
    drawn = axis.strip(None) if comparison is None or verdict.ratio is None else _strip(axis, comparison)
    return VerdictRow(verdict, drawn, correctness)


def _strip(axis: Axis, comparison: MetricComparison) -> Strip:
    return axis.strip(comparison.ratio, comparison.simultaneous_low, comparison.simultaneous_high)


def _in_arm_order(report: Report, rows: Iterable[ArmResult]) -> tuple[ArmResult, ...]:
    order = [arm.name for arm in report.manifest.arms]
    return tuple(sorted(rows, key=lambda r: order.index(r.arm)))


def _of(chosen: Iterable[MetricComparison], key: tuple[str, str, str]) -> list[MetricComparison]:
    return [c for c in chosen if (c.workload, c.load, c.stratum) == key]
