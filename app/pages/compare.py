"""The compare page: one typed query decides what is shown, and its canonical form is the page's address."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from app.domain.errors import FieldProblem, NotFound
from app.domain.report import ArmResult, Correctness, MetricComparison, Report, Verdict
from app.domain.vocabulary import Name
from app.figures import FIGURES, FigureText, describe
from app.pages.forest import Axis, Strip, axis_for

DRAWN_KEPT = 16
_DRAWN: OrderedDict[int, tuple[Report, dict[str, FigureText]]] = OrderedDict()
"""By the identity of a report, which is kept with it so that the identity stays its own."""

Stratum = Annotated[str, StringConstraints(pattern=r"^(?:all|[a-z0-9][a-z0-9._-]{0,62}=[a-z0-9][a-z0-9._-]{0,62})$")]


def _empty_is_absent(value: object) -> object:
    return None if value == "" else value


_Absent = BeforeValidator(_empty_is_absent)


class Metric(StrEnum):
    """The compared metrics, by their names in a report."""

    REQUEST_SPEEDUP = "request_speedup"
    REQUEST_TOTAL_SPEEDUP = "request_total_speedup"
    TPOT_SPEEDUP = "tpot_speedup"
    TTFT_SPEEDUP = "ttft_speedup"
    THROUGHPUT_RATIO = "throughput_ratio"
    GOODPUT_RATIO = "goodput_ratio"


class CompareQuery(BaseModel):
    """What to compare. An absent part means all of it; the metric defaults to the primary one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Annotated[Name | None, _Absent] = None
    load: Annotated[Name | None, _Absent] = None
    stratum: Annotated[Stratum | None, _Absent] = None
    metric: Metric = Metric.REQUEST_SPEEDUP

    def address(self, path: str) -> str:
        """The canonical address: fixed order, defaults left out."""
        parts = self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        return f"{path}?{urlencode(parts)}" if parts else path

    def keeps(self, row: ArmResult | MetricComparison) -> bool:
        """Whether the row belongs to what was asked for."""
        wanted = ((self.workload, row.workload), (self.load, row.load), (self.stratum, row.stratum))
        return all(asked is None or asked == found for asked, found in wanted)

    def check(self, report: Report) -> None:
        """Raise ``NotFound`` for a part that the report does not have."""
        known = {
            "workload": (self.workload, list(report.strata)),
            "load": (self.load, [p.name for p in report.manifest.loads]),
            "stratum": (self.stratum, strata_of(report)),
        }
        wrong = [
            FieldProblem(field, f"{asked} is not in this experiment", f"choose one of {', '.join(have)}")
            for field, (asked, have) in known.items()
            if asked is not None and asked not in have
        ]
        if wrong:
            raise NotFound(*wrong)


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


def strata_of(report: Report) -> list[str]:
    """Every stratum of any workload, ``all`` first, each once."""
    return list(dict.fromkeys(s for strata in report.strata.values() for s in strata))


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


def drawn_figures(report: Report) -> dict[str, FigureText]:
    """Every figure that has something to show, in words; the page fetches the drawing itself.

    Drawn once for each report that is held in memory: drawing takes most of the page's time.
    """
    if id(report) not in _DRAWN:
        described = {name: describe(draw(report)) for name, draw in FIGURES.items()}
        _DRAWN[id(report)] = report, {name: text for name, text in described.items() if text.rows}
    while len(_DRAWN) > DRAWN_KEPT:
        _DRAWN.popitem(last=False)
    return _DRAWN[id(report)][1]


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
