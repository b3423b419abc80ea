"""What a figure is: words, its numbers as a table, and a drawing of the same numbers that is made when asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

import plotly.graph_objects as go
from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from app.domain.comparison import REQUEST_SPEEDUP, MetricComparison
from app.domain.errors import FieldProblem, NotFound
from app.domain.pairing import ALL
from app.domain.report import ArmResult, Estimate, Report
from app.domain.vocabulary import Name

Cell = str | float | None
Row = tuple[Cell, ...]
INTERVAL = ("interval low", "interval high", "n", "method")
"""The last columns of nearly every figure's table."""

Stratum = Annotated[str, StringConstraints(pattern=r"^(?:all|[a-z0-9][a-z0-9._-]{0,62}=[a-z0-9][a-z0-9._-]{0,62})$")]
_Absent = BeforeValidator(lambda value: None if value == "" else value)


class Metric(StrEnum):
    """The compared metrics, by their names in a report."""

    REQUEST_SPEEDUP = "request_speedup"
    REQUEST_TOTAL_SPEEDUP = "request_total_speedup"
    TPOT_SPEEDUP = "tpot_speedup"
    TTFT_SPEEDUP = "ttft_speedup"
    THROUGHPUT_RATIO = "throughput_ratio"
    GOODPUT_RATIO = "goodput_ratio"


class View(BaseModel):
    """What of a report is drawn. An absent part means all of it; the metric defaults to the primary one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Annotated[Name | None, _Absent] = None
    load: Annotated[Name | None, _Absent] = None
    stratum: Annotated[Stratum | None, _Absent] = None
    metric: Metric = Metric.REQUEST_SPEEDUP

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

    def keeps(self, row: ArmResult | MetricComparison) -> bool:
        """Whether the row belongs to what was asked for."""
        return self.has(row.workload, row.load) and self.stratum in {None, row.stratum}

    def has(self, workload: str, load: str) -> bool:
        """Whether the condition belongs to what was asked for."""
        return self.workload in {None, workload} and self.load in {None, load}

    @property
    def query(self) -> str:
        """It as the end of an address: fixed order, defaults left out."""
        parts = self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        return f"?{urlencode(parts)}" if parts else ""

    @property
    def one_stratum(self) -> str:
        """That of a figure that shows one: all of them together, unless another is asked for."""
        return self.stratum or ALL

    @property
    def is_primary(self) -> bool:
        """Whether ratios are those that the verdicts rest on."""
        return self.metric == REQUEST_SPEEDUP and self.one_stratum == ALL


@dataclass(frozen=True, slots=True)
class Figure:
    """``rows`` has every number that ``draw`` draws; a cell is text, a number, or empty where there is none."""

    name: str
    title: str
    caption: str
    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    height_px: int
    draw: Callable[[], go.Figure]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(any(not isinstance(row[i], str | None) for row in self.rows) for i, _ in enumerate(self.headers))


def strata_of(report: Report) -> list[str]:
    """Every stratum of any workload, ``all`` first, each once."""
    return list(dict.fromkeys(s for strata in report.strata.values() for s in strata))


def method(estimate: Estimate) -> str:
    """How an estimate was made, and why something of it is missing."""
    level = f"{100 * estimate.confidence:.4g}% interval; " if estimate.confidence else ""
    return level + estimate.source + (f"; {estimate.why}" if estimate.why else "")


def told(value: Estimate) -> tuple[float | None, float | None, float | None, int, str]:
    """A table's cells of an estimate: value, interval, n and method."""
    return value.value, value.low, value.high, value.n, method(value)
