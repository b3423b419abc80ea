"""Points with intervals as Plotly objects: numbers and names, no colours.

``chart.js`` gives each trace its colours, dash and marker from ``meta`` (the arm's slot, and the trace's role where it
is not an arm's own) and each shape its own by name. ``customdata`` has the limits and n as the report states them.
"""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.domain.report import Estimate, Report

PANEL_PX = 215
FRAME_PX = 130
MANTISSAS = ((1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.1, 1.2, 1.3, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
"""Of the ticks of a logarithmic axis, the fewest first."""
TICKS_MIN = 3
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: where it is, what was estimated there, and in words what it is."""

    at: float | str
    value: Estimate
    words: str
    low: float | None
    high: float | None
    along: Estimate | None = None
    """Where the position is an estimate too."""
    hollow: bool = False
    """The arm's queue grows there, or it is foretold and not measured: which, the caption says."""


def dot(at: float | str, value: Estimate, words: str, *, along: Estimate | None = None, hollow: bool = False) -> Dot:
    """A point with the estimate's own interval."""
    return Dot(at, value, words, value.low, value.high, along, hollow)


@dataclass(frozen=True, slots=True)
class Line:
    """One arm's points in one panel. ``role`` is how ``chart.js`` draws them."""

    arm: str
    panel: int
    dots: tuple[Dot, ...]
    role: str = "line"
    lane: str = ""
    """Which of the arm's lanes it runs in, where positions run down the side and an arm has several."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Panels in a grid with the axes that they share."""

    name: str
    panels: tuple[str, ...]
    columns: int
    x_title: str
    y_title: str
    shapes: tuple[dict[str, Any], ...] = ()
    x_axis: dict[str, Any] = field(default_factory=dict[str, Any])
    y_axis: dict[str, Any] = field(default_factory=dict[str, Any])
    panel_axes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    """What is each panel's own, of its axis along the foot and of that up the side."""
    panel_px: int = PANEL_PX

    @property
    def rows(self) -> int:
        """Of the grid."""
        return max(-(-len(self.panels) // self.columns), 1)

    @property
    def height_px(self) -> int:
        """Of the whole drawing."""
        return FRAME_PX + self.panel_px * self.rows


def label(text: str) -> str:
    """Text for a Plotly label: Plotly would read ``<b>`` or ``<a href>`` in it as markup."""
    return html.escape(text, quote=False)


def two_lines(first: str, second: str) -> str:
    """A label of two lines."""
    return f"{label(first)}<br>{label(second)}"


def drawn(report: Report, frame: Frame, lines: Iterable[Line], *, horizontal: bool = False) -> go.Figure:
    """The panels with each arm's points; ``horizontal`` turns them, so that positions run down the side."""
    figure = panels(frame)
    for line in lines:
        figure.add_trace(_trace(report, line, horizontal=horizontal), *cell(line.panel, frame.columns))
    return finish(figure, frame)


def panels(frame: Frame) -> go.Figure:
    """The empty grid."""
    figure = make_subplots(
        rows=frame.rows,
        cols=frame.columns,
        shared_xaxes=True,
        shared_yaxes=cast("bool", "rows"),  # its annotation leaves out what its docstring offers
        specs=_grid(frame),
        subplot_titles=[label(title) for title in frame.panels],
        x_title=label(frame.x_title),
        y_title=label(frame.y_title),
        horizontal_spacing=0.06,
        vertical_spacing=min(0.14, 44 / (frame.panel_px * frame.rows)) if frame.rows > 1 else 0,
    )
    figure.update_xaxes(**frame.x_axis)
    figure.update_yaxes(**frame.y_axis)
    for index, (x, y) in enumerate(frame.panel_axes):
        row, column = cell(index, frame.columns)
        figure.update_xaxes(row=row, col=column, **x)
        figure.update_yaxes(row=row, col=column, **y)
    return figure


def _grid(frame: Frame) -> list[list[dict[str, Any] | None]]:
    """Which cells of the grid have a panel: a last row need not be full."""
    many = max(len(frame.panels), 1)
    return [
        [{} if row * frame.columns + at < many else None for at in range(frame.columns)] for row in range(frame.rows)
    ]


def finish(figure: go.Figure, frame: Frame) -> go.Figure:
    """What every drawing has; each arm is named once in the legend."""
    named: set[str] = set()
    for trace in cast("Sequence[Any]", figure.data):
        trace.showlegend = trace.showlegend is not False and trace.name not in named
        if trace.showlegend:
            named.add(str(trace.name))
    meta = {"name": frame.name, "panels": len(frame.panels), "columns": frame.columns, "panel_px": frame.panel_px}
    return figure.update_layout(
        template="none",
        height=frame.height_px,
        meta=meta,
        shapes=frame.shapes,
        legend={"orientation": "h"},
        hovermode="closest",
    )


def cell(panel: int, columns: int) -> tuple[int, int]:
    """Row and column of a panel, from 1."""
    return panel // columns + 1, panel % columns + 1


def identity(report: Report, arm: str, role: str = "line") -> dict[str, Any]:
    """What a trace says of its arm."""
    slot = [a.name for a in report.manifest.arms].index(arm)
    return {"name": label(arm), "legendgroup": arm, "meta": {"arm": arm, "slot": slot, "role": role}}


def axes(panel: int) -> tuple[str, str]:
    """Plotly's names of a panel's axes, as shapes want them."""
    number = "" if panel == 0 else str(panel + 1)
    return f"x{number}", f"y{number}"


def upright(panel: int, x0: float, x1: float, name: str) -> dict[str, Any]:
    """A band over the panel's whole height."""
    x, y = axes(panel)
    return {"name": name, "type": "rect", "xref": x, "yref": f"{y} domain", "x0": x0, "x1": x1, "y0": 0, "y1": 1}


def level(panel: int, y0: float, y1: float, name: str) -> dict[str, Any]:
    """A band, or a line, over the panel's whole width."""
    x, y = axes(panel)
    kind = "line" if y0 == y1 else "rect"
    return {"name": name, "type": kind, "xref": f"{x} domain", "yref": y, "x0": 0, "x1": 1, "y0": y0, "y1": y1}


def log_axis(values: Iterable[float | None], unit: str = "") -> dict[str, Any]:
    """A logarithmic axis over these values, with whole labels at round places."""
    known = [value for value in values if value is not None and value > 0]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    room = (high / low) ** 0.06 if high > low else 1.05
    ticks = _ticks(low / room, high * room)
    return {
        "type": "log",
        "range": [math.log10(low / room), math.log10(high * room)],
        "tickvals": ticks,
        "ticktext": [f"{t:.4g}{unit}" for t in ticks],
    }


def ratio_axis(values: Iterable[float | None], delta: float) -> dict[str, Any]:
    """A logarithmic axis of ratios that shows the margin too."""
    return log_axis((*values, 1 / (1 + delta), 1 + delta), TIMES)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, or evenly spaced ones where they are close together."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in MANTISSAS:
        found = [m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high]
        if len(found) >= TICKS_MIN:
            return found
    step = 10.0 ** math.floor(math.log10((high - low) / TICKS_MIN))
    step *= max((m for m in (1, 2, 5) if (high - low) / (m * step) >= TICKS_MIN), default=1)
    return [round(n * step, 9) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def margin(panel: int, delta: float, *, horizontal: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The band of effects that are not worth acting on, and the line of no effect."""
    low, high = 1 / (1 + delta), 1 + delta
    across = upright if horizontal else level
    line = across(panel, 1, 1, "unity")
    return across(panel, low, high, "margin"), {**line, "type": "line"}


def _trace(report: Report, line: Line, *, horizontal: bool) -> go.Scatter:
    place, value = ("y", "x") if horizontal else ("x", "y")
    shown: dict[str, Any] = {
        place: [d.at for d in line.dots],
        value: [d.value.value for d in line.dots],
        "customdata": [[d.low, d.high, d.value.n] for d in line.dots],
        "hovertext": [_hover(d) for d in line.dots],
        "hoverinfo": "text",
        "mode": "lines+markers" if line.role in {"line", "share"} else "markers",
        **identity(report, line.arm, line.role),
    }
    if any(d.low is not None for d in line.dots):
        shown[f"error_{value}"] = _bars([(d.value.value, d.low, d.high) for d in line.dots])
    along = [d.along for d in line.dots if d.along is not None]
    if along:
        shown[f"error_{place}"] = _bars([(e.value, e.low, e.high) for e in along])
        shown["customdata"] = [[*row, e.low, e.high] for row, e in zip(shown["customdata"], along, strict=True)]
    if horizontal:
        shown |= {"orientation": "h", "offsetgroup": f"{line.arm} {line.lane}"}
    if any(d.hollow for d in line.dots):
        shown["meta"] = {**shown["meta"], "hollow": [d.hollow for d in line.dots]}
    return go.Scatter(**shown)


def _bars(limits: Sequence[tuple[float | None, float | None, float | None]]) -> dict[str, object]:
    above = [None if high is None or value is None else high - value for value, _, high in limits]
    below = [None if low is None or value is None else value - low for value, low, _ in limits]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}


def _hover(shown: Dot) -> str:
    value = "none" if shown.value.value is None else f"{shown.value.value:.4g}"
    known = shown.low is not None and shown.high is not None
    limits = f" [{shown.low:.4g}, {shown.high:.4g}]" if known else " (no interval)"
    return f"{label(shown.words)}: {value}{limits}, n = {shown.value.n}"
