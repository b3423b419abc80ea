"""How latencies are spread over requests: their empirical distribution functions, as the report states them."""

from typing import Any

import plotly.graph_objects as go

from app.domain.distribution import Distribution
from app.domain.pairing import ALL
from app.domain.report import ArmResult, Report
from app.figures.drawing import Frame, cell, finish, identity, log_axis, panels
from app.figures.figure import Figure, View

LATENCIES = {"ttft_ms": "TTFT (ms)", "tpot_ms": "TPOT (ms)", "e2e_ms": "E2E (ms)"}
SHARE = "Share of requests"
HEADERS = (
    *("arm", "workload", "load", "latency", "Time (ms)", SHARE, "interval low", "interval high"),
    *("blocks", "requests", "with a time", "of offered", "method"),
)
PANELS_MAX = 24
"""More are not drawn; the table has them all."""

_Curve = tuple[int, ArmResult, str, Distribution]


def latency_distribution(report: Report, view: View) -> Figure:
    """One row for each workload and load, one column for each latency."""
    loads = sorted(report.manifest.loads, key=lambda p: p.level)
    places = [(w, p.name) for w in report.strata for p in loads if view.has(w, p.name)]
    order = [arm.name for arm in report.manifest.arms]
    results = sorted((r for r in report.results if r.stratum == ALL), key=lambda r: order.index(r.arm))
    curves: list[_Curve] = [
        (row * len(LATENCIES) + column, r, name, found)
        for row, place in enumerate(places)
        for r in results
        if (r.workload, r.load) == place
        for column, name in enumerate(LATENCIES)
        if (found := r.distributions.get(name)) is not None
    ]
    kept = places[: PANELS_MAX // len(LATENCIES)]
    axes = [log_axis(ms for _, _, name, d in curves if name == latency for ms in d.ms) for latency in LATENCIES]
    frame = Frame(
        "latency_distribution",
        tuple(f"{w} · {load} · {words}" for w, load in kept for words in LATENCIES.values()),
        len(LATENCIES),
        "Time (ms, log scale)",
        SHARE,
        y_axis={"range": [0, 1.02]},
        panel_axes=tuple((axis, {}) for _ in kept for axis in axes),
    )
    return Figure(
        name=frame.name,
        title="How latencies are spread",
        caption=_caption(len(kept), len(places), curves),
        headers=HEADERS,
        rows=tuple(
            (r.arm, r.workload, r.load, LATENCIES[name], ms, share, low, high, *_of(d))
            for _, r, name, d in curves
            for ms, share, low, high in zip(d.ms, d.share, d.low, d.high, strict=True)
        ),
        height_px=frame.height_px,
        draw=lambda: _drawn(report, frame, [c for c in curves if c[0] < len(frame.panels)]),
    )


def _of(found: Distribution) -> tuple[int, int, int, int, str]:
    """A table's cells of what a curve rests on."""
    return found.blocks, found.counted, found.timed, found.offered, found.source


def _caption(kept: int, places: int, curves: list[_Curve]) -> str:
    lost = sum(d.counted - d.timed for _, _, name, d in curves if name == "e2e_ms")
    failed = (
        f"{lost} requests failed: they count as infinitely slow, so E2E (and TTFT, where no token came) ends below 1, "
        "and TPOT leaves them out. "
        if lost
        else "No request failed. "
    )
    few = (
        f"The first {kept} of {places} conditions are drawn; choose one above, or take the table. "
        if kept < places
        else ""
    )
    return (
        f"Further left is faster. {failed}A line is the mean of its blocks' shares at measured times, joined straight; "
        f"about it the interval at each time alone. {few}All strata together."
    )


def _hover(name: str, found: Distribution) -> list[str]:
    return [f"{name}: {share:.1%} within {ms:.4g} ms" for ms, share in zip(found.ms, found.share, strict=True)]


def _drawn(report: Report, frame: Frame, curves: list[_Curve]) -> go.Figure:
    figure = panels(frame)
    for panel, row, _, found in curves:
        place = cell(panel, frame.columns)
        own = identity(report, row.arm, "share")
        limits = [(ms, low, high) for ms, low, high in zip(found.ms, found.low, found.high, strict=True)]
        known = [(ms, low, high) for ms, low, high in limits if low is not None and high is not None]
        if known:
            around: dict[str, Any] = {
                "x": [*(ms for ms, _, _ in known), *(ms for ms, _, _ in reversed(known))],
                "y": [*(low for _, low, _ in known), *(high for _, _, high in reversed(known))],
            }
            band = {**own, "meta": {**own["meta"], "role": "band"}}
            figure.add_trace(
                go.Scatter(**around, fill="toself", mode="lines", hoverinfo="skip", showlegend=False, **band), *place
            )
        figure.add_trace(
            go.Scatter(
                x=found.ms,
                y=found.share,
                mode="lines+markers",
                marker={"maxdisplayed": 6},
                customdata=[[low, high, found.blocks] for _, low, high in limits],
                hovertext=_hover(own["name"], found),
                hoverinfo="text",
                **own,
            ),
            *place,
        )
    return finish(figure, frame)
