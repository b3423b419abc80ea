"""Figures as pure functions of a report: numbers and names, no colours.

The page, the API and an exported report draw the same object; ``chart.js`` gives each arm
its colour, dash and marker from ``trace.meta["slot"]`` and each shape its colour by name.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.domain.report import ArmResult, Estimate, MetricComparison, Report

PRIMARY_METRIC = "request_speedup"
ROW_PX = 34
TICKS = (0.25, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)

Placed = tuple[str, Estimate]
"""A position on the category axis and what was estimated there."""


Row = tuple[str | float | None, ...]


@dataclass(frozen=True, slots=True)
class FigureText:
    """A figure in words: its sentence, and its numbers as a table that a screen reader can walk."""

    caption: str
    height_px: int
    headers: tuple[str, ...]
    rows: tuple[Row, ...]


def label(text: str) -> str:
    """Text for a Plotly label: Plotly would read ``<b>`` or ``<a href>`` in it as markup."""
    return html.escape(text, quote=False)


def condition_label(workload: str, load: str, report: Report) -> str:
    """``workload · load (4 requests/s)``, the words used for a condition everywhere on a page."""
    offered = next(p.offered for p in report.manifest.loads if p.name == load)
    return f"{workload} · {load} ({offered})"


def speedup_by_condition(report: Report) -> go.Figure:
    """The answer as a forest plot: each arm's primary ratio in each condition, with the margin band."""
    placed = {
        arm: [
            (condition_label(v.workload, v.load, report), v.ratio) for v in report.verdicts if v.arm == arm and v.ratio
        ]
        for arm in _candidates(report)
    }
    caption = "Speed-up of each arm over target-only, by workload and load; right of the band helps, left of it hurts."
    return _forest(report, placed, "speedup_by_condition", caption)


def speedup_by_stratum(report: Report) -> go.Figure:
    """The primary metric inside each stratum; exploratory, never the verdict's evidence."""
    chosen = [c for c in report.comparisons if c.metric == PRIMARY_METRIC and c.stratum != "all"]
    placed = {arm: [(_stratum_label(c), c.ratio) for c in chosen if c.arm == arm] for arm in _candidates(report)}
    caption = "Speed-up of each arm inside each stratum; exploratory, the verdict rests on all strata together."
    return _forest(report, placed, "speedup_by_stratum", caption)


def latency_by_load(report: Report) -> go.Figure:
    """End-to-end latency from the due time against the offered rate: p50 and p95, one panel per workload."""
    panels = [(workload, q) for q in ("p50", "p95") for workload in report.strata]
    titles = ("Offered rate (requests/s)", "E2E latency (ms)")
    figure = _panels([f"{w} · {q}" for w, q in panels], *titles, columns=len(report.strata))
    for index, (workload, quantile) in enumerate(panels):
        for arm, result_rows in _overall(report, workload).items():
            points = [(_rate(report, r.load), r.e2e_ms[quantile]) for r in result_rows if quantile in r.e2e_ms]
            figure.add_trace(_line(report, arm, f"{workload} · {quantile}", points), *_cell(index, len(report.strata)))
    caption = "End-to-end latency from the due time against the offered rate; lower is better."
    return _finish(figure, "latency_by_load", caption, *titles)


def throughput_by_load(report: Report) -> go.Figure:
    """Output tokens per second of successful requests against the offered rate, one panel per workload."""
    workloads = tuple(report.strata)
    titles = ("Offered rate (requests/s)", "Output throughput (tokens/s)")
    figure = _panels(list(workloads), *titles, columns=len(workloads))
    for index, workload in enumerate(workloads):
        for arm, result_rows in _overall(report, workload).items():
            points = [(_rate(report, r.load), r.output_throughput_tps) for r in result_rows]
            figure.add_trace(_line(report, arm, workload, points), *_cell(index, len(workloads)))
    caption = "Output throughput of successful requests against the offered rate; higher is better."
    return _finish(figure, "throughput_by_load", caption, *titles)


def acceptance_by_position(report: Report) -> go.Figure:
    """Unconditional acceptance at each draft position (0-based), one panel per workload and load."""
    panels = [(w, p.name) for p in report.manifest.loads for w in report.strata]
    titles = ("Draft position (0-based)", "Accepted / drafts")
    figure = _panels([f"{w} · {load}" for w, load in panels], *titles, columns=len(report.strata))
    for index, (workload, load) in enumerate(panels):
        for arm, result_rows in _overall(report, workload).items():
            for row in (r for r in result_rows if r.load == load and r.acceptance_by_position):
                points = [(float(j), _bare(share, row)) for j, share in enumerate(row.acceptance_by_position)]
                figure.add_trace(_line(report, arm, f"{workload} · {load}", points), *_cell(index, len(report.strata)))
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[-0.03, 1.03])
    caption = "Share of drafts whose token at the position was accepted (unconditional)."
    return _finish(figure, "acceptance_by_position", caption, *titles)


FIGURES: Mapping[str, Callable[[Report], go.Figure]] = {
    "speedup_by_condition": speedup_by_condition,
    "speedup_by_stratum": speedup_by_stratum,
    "latency_by_load": latency_by_load,
    "throughput_by_load": throughput_by_load,
    "acceptance_by_position": acceptance_by_position,
}


def describe(figure: go.Figure) -> FigureText:
    """The figure's sentence and every point with its interval, read back from the figure itself."""
    drawn = cast("dict[str, Any]", figure.to_plotly_json())
    meta = drawn["layout"]["meta"]
    rows = [row for trace in drawn["data"] for row in _trace_rows(trace, horizontal=meta["horizontal"])]
    return FigureText(meta["caption"], int(drawn["layout"]["height"]), tuple(meta["headers"]), tuple(rows))


def _trace_rows(trace: dict[str, Any], *, horizontal: bool) -> Iterator[Row]:
    place, value, bars = ("y", "x", "error_x") if horizontal else ("x", "y", "error_y")
    panel = () if horizontal else (trace["meta"]["panel"],)
    points = zip(trace[place], trace[value], trace[bars]["arrayminus"], trace[bars]["array"], strict=True)
    for at, middle, below, above in points:
        low = None if below is None else middle - below
        high = None if above is None else middle + above
        yield (trace["meta"]["arm"], *panel, html.unescape(at) if isinstance(at, str) else at, middle, low, high)


def _forest(report: Report, placed: Mapping[str, Sequence[Placed]], name: str, caption: str) -> go.Figure:
    figure = go.Figure()
    for arm, points in placed.items():
        figure.add_trace(
            go.Scatter(
                x=[e.value for _, e in points],
                y=[label(place) for place, _ in points],
                error_x=_bars([e for _, e in points]),
                orientation="h",
                mode="markers",
                offsetgroup=arm,
                **_identity(report, arm, ""),
            )
        )
    lanes = {place: None for points in placed.values() for place, _ in points}
    delta = report.manifest.margins.delta
    figure.add_shape(name="margin", type="rect", xref="x", yref="paper", x0=1 / (1 + delta), x1=1 + delta, y0=0, y1=1)
    figure.add_shape(name="unity", type="line", xref="x", yref="paper", x0=1, x1=1, y0=0, y1=1)
    x_title = "Ratio to target-only (log scale)"
    figure.update_xaxes(
        type="log", tickvals=TICKS, ticktext=[f"{t:g}\N{MULTIPLICATION SIGN}" for t in TICKS], title_text=x_title
    )
    figure.update_yaxes(autorange="reversed", categoryarray=[label(p) for p in lanes], categoryorder="array")
    figure.update_layout(scattermode="group", height=110 + ROW_PX * max(len(lanes), 1) * max(len(placed), 1) * 0.8)
    return _finish(figure, name, caption, x_title, "", horizontal=True)


def _panels(titles: Sequence[str], x_title: str, y_title: str, *, columns: int) -> go.Figure:
    rows = max(-(-len(titles) // columns), 1)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=True,
        shared_yaxes=cast("bool", "rows"),  # its annotation leaves out what its docstring offers
        subplot_titles=[label(t) for t in titles],
        x_title=x_title,
        y_title=y_title,
        horizontal_spacing=0.06,
        vertical_spacing=0.14 if rows > 1 else 0,
    )
    return figure.update_layout(height=140 + 200 * rows)


def _line(report: Report, arm: str, panel: str, points: Sequence[tuple[float, Estimate]]) -> go.Scatter:
    return go.Scatter(
        x=[x for x, _ in points],
        y=[e.value for _, e in points],
        error_y=_bars([e for _, e in points]),
        mode="lines+markers",
        **_identity(report, arm, panel),
    )


def _finish(
    figure: go.Figure, name: str, caption: str, x_title: str, y_title: str, *, horizontal: bool = False
) -> go.Figure:
    place = ("condition",) if horizontal else ("panel", x_title)
    value = x_title if horizontal else y_title
    meta = {
        "name": name,
        "caption": caption,
        "horizontal": horizontal,
        "headers": ["arm", *place, value, "interval low", "interval high"],
    }
    figure.update_layout(template="none")
    named: set[str] = set()
    for trace in cast("Sequence[go.Scatter]", figure.data):
        trace.showlegend = trace.name not in named
        named.add(str(trace.name))
    return figure.update_layout(meta=meta, legend={"orientation": "h"}, hovermode="closest")


def _identity(report: Report, arm: str, panel: str) -> dict[str, object]:
    slot = [a.name for a in report.manifest.arms].index(arm)
    return {"name": label(arm), "legendgroup": arm, "meta": {"arm": arm, "slot": slot, "panel": panel}}


def _bars(estimates: Sequence[Estimate]) -> dict[str, object]:
    above = [None if e.high is None or e.value is None else e.high - e.value for e in estimates]
    below = [None if e.low is None or e.value is None else e.value - e.low for e in estimates]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}


def _bare(share: float, row: ArmResult) -> Estimate:
    return Estimate(value=share, n=row.success, unit="share", source="accepted at the position / drafts (method A2)")


def _overall(report: Report, workload: str) -> dict[str, list[ArmResult]]:
    """Arm → its results over all strata, low rate first; arms in the manifest's order."""
    chosen = [r for r in report.results if r.workload == workload and r.stratum == "all"]
    by_arm = {a.name: [r for r in chosen if r.arm == a.name] for a in report.manifest.arms}
    return {arm: sorted(found, key=lambda r: _rate(report, r.load)) for arm, found in by_arm.items() if found}


def _candidates(report: Report) -> list[str]:
    return [a.name for a in report.manifest.candidates]


def _rate(report: Report, load: str) -> float:
    return next(p.level for p in report.manifest.loads if p.name == load)


def _stratum_label(comparison: MetricComparison) -> str:
    return f"{comparison.workload} · {comparison.load} · {comparison.stratum.removeprefix('task=')}"


def _cell(index: int, columns: int) -> tuple[int, int]:
    return index // columns + 1, index % columns + 1
