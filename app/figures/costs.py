"""What an arm costs and why it is as fast as it is: foretold and measured, time by part, memory by part."""

import textwrap
from collections.abc import Sequence

import plotly.graph_objects as go

from app.domain.arm_memory import ArmMemory
from app.domain.explanation import Explanation
from app.domain.memory import MemoryPart
from app.domain.report import Estimate, Report
from app.figures.drawing import (
    TIMES,
    Dot,
    Frame,
    Line,
    dot,
    drawn,
    finish,
    label,
    log_axis,
    panels,
    two_lines,
    upright,
)
from app.figures.figure import INTERVAL, Figure, View, told
from app.figures.ratios import LANE_PX, offered

SAVED = "Saved per request (ms)"
SUM = "all together"
LINE_LETTERS = 20
BYTES = "Memory (bytes)"
ON_AXIS = 2
"""A capacity above so many times the largest total would press the bars against the edge; it is told in words."""


def foretold_speedup(report: Report, view: View) -> Figure:
    """What acceptance and the cost of a step foretell beside what was measured, one lane for each condition and arm."""
    chosen = [e for e in report.explanations if view.has(e.workload, e.load) and e.measured_request.value is not None]
    places = list(dict.fromkeys(_place(report, e) for e in chosen))
    arms = list(dict.fromkeys(e.arm for e in chosen))
    lines = [
        Line(arm, 0, tuple(_one(report, e, foretold=foretold) for e in chosen if e.arm == arm), "points", str(foretold))
        for arm in arms
        for foretold in (False, True)
    ]
    values = [v for e in chosen for x in (e.measured_request, e.foretold_request) for v in (x.value, x.low, x.high)]
    frame = Frame(
        "foretold_speedup",
        ("",),
        1,
        f"Request speed-up ({TIMES}, log scale)",
        "",
        shapes=({**upright(0, 1, 1, "unity"), "type": "line"},),
        x_axis=log_axis((*values, 1.0), TIMES),
        y_axis={
            "autorange": "reversed",
            "categoryorder": "array",
            "categoryarray": [two_lines(*place) for place in places],
        },
        panel_px=max(len(places), 1) * max(44, LANE_PX * 2 * len(arms)),
    )
    return Figure(
        name=frame.name,
        title="Foretold and measured",
        caption="Full: measured (total E2E time of target-only over the arm's). Hollow: foretold from acceptance and "
        "the cost of a step, if only decoding had changed. Measured left of foretold: something else ate the rest."
        + _silence(chosen),
        headers=("arm", "workload", "load", *_columns("measured"), *_columns("foretold")),
        rows=tuple((e.arm, e.workload, e.load, *told(e.measured_request), *told(e.foretold_request)) for e in chosen),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines, horizontal=True).update_layout(scattermode="group"),
    )


def draft_cost(report: Report, view: View) -> Figure:
    """Where the time of a request was saved and where it was spent; above zero is saved."""
    chosen = [e for e in report.explanations if view.has(e.workload, e.load) and e.saved_ms.value is not None]
    places = list(dict.fromkeys((e.workload, e.load) for e in chosen))
    parts = list(dict.fromkeys(p.part for e in chosen for p in e.parts))
    lines = [Line(e.arm, places.index((e.workload, e.load)), tuple(_saved(e)), "points") for e in chosen]
    arms = len({e.arm for e in chosen})
    frame = Frame(
        "draft_cost",
        tuple(f"{w} · {load} ({offered(report, load)})" for w, load in places),
        2 if len(places) > 1 else 1,
        SAVED,
        "",
        shapes=tuple({**upright(i, 0, 0, "unity"), "type": "line"} for i, _ in enumerate(places)),
        y_axis={
            "autorange": "reversed",
            "categoryorder": "array",
            "categoryarray": [_part(p) for p in (*parts, SUM)],
        },
        panel_px=60 + (len(parts) + 1) * max(46, 18 * arms),
    )
    return Figure(
        name=frame.name,
        title="What drafting saves and costs",
        caption="Milliseconds per request against target-only of the same block: right of zero is saved, left is "
        "spent. The parts sum to the last row. Memory is below.",
        headers=("arm", "workload", "load", "part", SAVED, *INTERVAL),
        rows=tuple(
            (e.arm, e.workload, e.load, part, *told(value))
            for e in chosen
            for part, value in (*((p.part, p.saved_ms) for p in e.parts), (SUM, e.saved_ms))
        ),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines, horizontal=True).update_layout(scattermode="group"),
    )


def memory_by_part(report: Report, view: View) -> Figure:  # noqa: ARG001  (every figure takes a view; memory has no parts of it)
    """One bar for each arm, stacked by what its server's memory was for; what nothing explains is a part too."""
    parts = [p for p in MemoryPart if p is not MemoryPart.HEADROOM and any(_size(m, p) for m in report.memory)]
    totals = [m.breakdown.total_bytes or _stacked(m, parts) for m in report.memory]
    capacities = [m.breakdown.capacity_bytes for m in report.memory if m.breakdown.capacity_bytes]
    near = bool(capacities) and max(capacities) <= ON_AXIS * max(totals, default=0)
    frame = Frame(
        "memory_by_part",
        ("",),
        1,
        BYTES,
        "",
        shapes=tuple({**upright(0, c, c, "capacity"), "type": "line"} for c in sorted(set(capacities)) if near),
        x_axis={"tickformat": ".3~s", "ticksuffix": "B"},
        y_axis={"autorange": "reversed", "type": "category"},
        panel_px=max(len(report.memory), 1) * 58,
    )
    return Figure(
        name=frame.name,
        title="Where the memory goes",
        caption=f"One server of each arm at its peak; “{MemoryPart.REMAINDER}” is what no source tells. "
        f"{_room(capacities, near=near)}",
        headers=("arm", "part", BYTES, "source"),
        rows=tuple(row for m in report.memory for row in _memory_rows(m)),
        height_px=frame.height_px + 26 * -(-len(parts) // 3),
        draw=lambda: _stacks(report, frame, parts),
    )


def _silence(chosen: Sequence[Explanation]) -> str:
    """Why nothing is foretold, where nothing is."""
    whys = {e.foretold_request.why for e in chosen}
    none = bool(chosen) and all(e.foretold_request.value is None for e in chosen)
    return f" Nothing is foretold here: {'; '.join(sorted(why for why in whys if why))}." if none else ""


def _columns(what: str) -> tuple[str, ...]:
    return what, f"{what} low", f"{what} high", f"{what} n", f"{what} method"


def _one(report: Report, e: Explanation, *, foretold: bool) -> Dot:
    value = e.foretold_request if foretold else e.measured_request
    words = f"{e.arm}, {e.workload} at {e.load}, {'foretold' if foretold else 'measured'}"
    return dot(two_lines(*_place(report, e)), value, words, hollow=foretold)


def _place(report: Report, e: Explanation) -> tuple[str, str]:
    return f"{e.workload} · {e.load}", offered(report, e.load)


def _saved(e: Explanation) -> list[Dot]:
    every: list[tuple[str, Estimate]] = [*((p.part, p.saved_ms) for p in e.parts), (SUM, e.saved_ms)]
    return [dot(_part(part), value, f"{e.arm}, {part}") for part, value in every]


def _part(part: str) -> str:
    """A part's name, on several lines where it is long."""
    return "<br>".join(map(label, textwrap.wrap(part, LINE_LETTERS)))


def _size(memory: ArmMemory, part: MemoryPart) -> int | None:
    return next((row.size_bytes for row in memory.breakdown.rows if row.part is part), None)


def _stacked(memory: ArmMemory, parts: Sequence[MemoryPart]) -> int:
    return sum(_size(memory, part) or 0 for part in parts)


def _room(capacities: Sequence[int], *, near: bool) -> str:
    if not capacities:
        return "How much there is, nothing tells."
    if near:
        return "The line is the capacity."
    return f"The capacity, {max(capacities) / 1e9:.1f} GB, lies beyond this axis."


def _memory_rows(memory: ArmMemory) -> list[tuple[str | float | None, ...]]:
    made = memory.breakdown
    return [
        *((memory.arm, row.part.value, row.size_bytes, row.source) for row in made.rows),
        (memory.arm, "in use at peak", made.total_bytes, made.total_source),
        (memory.arm, "capacity", made.capacity_bytes, "of the device, or of the host"),
    ]


def _stacks(report: Report, frame: Frame, parts: Sequence[MemoryPart]) -> go.Figure:
    figure = panels(frame)
    for slot, part in enumerate(parts):
        figure.add_trace(
            go.Bar(
                x=[_size(m, part) for m in report.memory],
                y=[label(m.arm) for m in report.memory],
                orientation="h",
                name=label(part.value),
                hovertext=[f"{label(m.arm)}, {part.value}: {_said(_size(m, part))}" for m in report.memory],
                hoverinfo="text",
                meta={"slot": slot, "role": "part"},
            )
        )
    return finish(figure, frame).update_layout(barmode="relative")


def _said(size: int | None) -> str:
    return "not told" if size is None else f"{size / 1e6:,.1f} MB"
