"""What the target accepted at each draft position: as lines with their bands, and as a map over strata and loads."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from app.domain.pairing import ALL
from app.domain.report import ArmResult, Estimate, Report
from app.figures.drawing import Frame, Line, cell, dot, drawn, finish, identity, label, panels, two_lines
from app.figures.figure import INTERVAL, Figure, View, told
from app.figures.ratios import offered

POSITION = "Draft position (0-based)"
SHARE = "Accepted / drafts"
NO_BAND = "steps accepting it / drafts; this engine gives no counts per request, so no interval can be given"
ABSENT = "none"


class _At(NamedTuple):
    """One result's acceptance at one position."""

    row: ArmResult
    position: int
    value: Estimate


def acceptance_by_position(report: Report, view: View) -> Figure:
    """Unconditional acceptance at each draft position, one panel per workload and load."""
    loads = sorted(report.manifest.loads, key=lambda p: p.level)
    places = [(w, p.name) for p in loads for w in report.strata if view.has(w, p.name)]
    found = [
        at for at in _told(report) if at.row.stratum == view.one_stratum and (at.row.workload, at.row.load) in places
    ]
    lines = [
        Line(
            arm,
            places.index((w, load)),
            tuple(
                dot(at.position, at.value, f"{arm}, position {at.position}")
                for at in found
                if (at.row.arm, at.row.workload, at.row.load) == (arm, w, load)
            ),
        )
        for arm, w, load in dict.fromkeys((at.row.arm, at.row.workload, at.row.load) for at in found)
    ]
    frame = Frame(
        "acceptance_by_position",
        tuple(f"{w} · {load}" for w, load in places),
        max(len({w for w, _ in places}), 1),
        POSITION,
        SHARE,
        x_axis={"dtick": 1},
        y_axis={"range": [-0.03, 1.03]},
    )
    return Figure(
        name=frame.name,
        title="Acceptance by draft position",
        caption="Share of drafts whose token at the position was accepted, so it can only fall; intervals of one line "
        "hold together over its positions. A steep fall says that a shorter draft would do.",
        headers=("arm", "panel", POSITION, SHARE, *INTERVAL),
        rows=tuple((at.row.arm, f"{at.row.workload} · {at.row.load}", at.position, *told(at.value)) for at in found),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines),
    )


def acceptance_map(report: Report, view: View) -> Figure:
    """Draft position by stratum and load, one panel for each arm that drafts and workload."""
    drafting = [a.name for a in report.manifest.arms if any(at.row.arm == a.name for at in _told(report))]
    rows = [r for r in report.results if view.keeps(r) and r.arm in drafting]
    cells = [(r, at) for r in rows for at in _at_positions(r) or [None]]
    told_apart = any(at for r, at in cells if r.stratum != ALL)
    shown = [r for r in rows if told_apart or r.stratum == ALL]
    places = [(arm, w) for w in report.strata for arm in drafting if any((r.arm, r.workload) == (arm, w) for r in rows)]
    tallest = max((sum((r.arm, r.workload) == place for r in shown) for place in places), default=1)
    frame = Frame(
        "acceptance_map",
        tuple(f"{arm} · {w}" for arm, w in places),
        _abreast(max(len(drafting), 1)),
        POSITION,
        "",
        x_axis={"dtick": 1, "showgrid": False, "zeroline": False},
        y_axis={"autorange": "reversed", "showgrid": False, "type": "category"},
        panel_px=60 + 40 * tallest,
    )
    return Figure(
        name=frame.name,
        title="Where drafts are accepted",
        caption="Share of drafts accepted at each position, by stratum and load; the stronger the colour, the more. "
        "“none” where nothing was drafted, or where the engine does not tell. In brackets the interval."
        + ("" if told_apart else " Only all strata together: this engine does not tell them apart."),
        headers=("arm", "workload", "load", "stratum", POSITION, SHARE, *INTERVAL),
        rows=tuple(
            (r.arm, r.workload, r.load, r.stratum, *((at.position, *told(at.value)) if at else _none(r)))
            for r, at in cells
        ),
        height_px=frame.height_px,
        draw=lambda: _map(report, frame, places, shown),
    )


def _abreast(arms: int) -> int:
    """Panels beside each other share their rows, which are one workload's: so many that each workload begins a line."""
    return next(columns for columns in (3, 2, 1) if arms % columns == 0)


def _map(report: Report, frame: Frame, places: Sequence[tuple[str, str]], rows: Sequence[ArmResult]) -> go.Figure:
    figure = panels(frame)
    for index, place in enumerate(places):
        here = [r for r in rows if (r.arm, r.workload) == place]
        own = identity(report, place[0], "map")
        own["showlegend"] = False
        names = [_place(report, r) for r in here]
        width = max(len(r.acceptance_by_position) for r in here) or 1
        grid = [[at.value for at in _at_positions(r)] for r in here]
        filled: list[list[Estimate | None]] = [[*row, *[None] * (width - len(row))] for row in grid]
        figure.add_trace(_cells(filled, names, own), *cell(index, frame.columns))
        empty = [(x, names[y]) for y, row in enumerate(filled) for x, share in enumerate(row) if share is None]
        if empty:
            own["meta"] = {**own["meta"], "role": "absent"}
            xs, ys = [x for x, _ in empty], [y for _, y in empty]
            absent = go.Scatter(x=xs, y=ys, text=[ABSENT] * len(empty), mode="text", hoverinfo="skip", **own)
            figure.add_trace(absent, *cell(index, frame.columns))
    return finish(figure, frame)


def _cells(shares: Sequence[Sequence[Estimate | None]], names: Sequence[str], own: dict[str, object]) -> go.Heatmap:
    return go.Heatmap(
        x=list(range(len(shares[0]))),
        y=names,
        z=[[e and e.value for e in row] for row in shares],
        text=[[_cell_text(e) for e in row] for row in shares],
        customdata=[[[e.low, e.high, e.n] if e else [None] * 3 for e in row] for row in shares],
        texttemplate="%{text}",
        hoverinfo="skip",
        zmin=0,
        zmax=1,
        xgap=2,
        ygap=2,
        showscale=False,
        **own,
    )


def _cell_text(share: Estimate | None) -> str:
    if share is None or share.value is None:
        return ""
    known = share.low is not None and share.high is not None
    return f"{share.value:.2f}" + (f"<br>[{share.low:.2f}, {share.high:.2f}]" if known else "")


def _place(report: Report, row: ArmResult) -> str:
    several = len(report.manifest.loads) > 1
    return two_lines(row.stratum, f"{row.load}, {offered(report, row.load)}") if several else label(row.stratum)


def _told(report: Report) -> list[_At]:
    return [at for row in report.results for at in _at_positions(row)]


def _at_positions(row: ArmResult) -> list[_At]:
    """A result's shares; with the band where the engine gave counts by request."""
    band = row.acceptance_band
    return [
        _At(row, j, band[j] if j < len(band) else _bare(share, row))
        for j, share in enumerate(row.acceptance_by_position)
    ]


def _none(row: ArmResult) -> tuple[None, None, None, None, int, str]:
    """The table's cells where there is no share."""
    return None, None, None, None, 0, row.acceptance_rate.why or ABSENT


def _bare(share: float, row: ArmResult) -> Estimate:
    return Estimate(value=share, n=row.success, unit="share", source=NO_BAND)
