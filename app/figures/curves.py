"""What each arm did as the load rises: latency, throughput, and one against the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from app.domain.load import LoadPoint
from app.domain.report import ArmResult, Estimate, Report
from app.figures.drawing import Dot, Frame, Line, dot, drawn, upright
from app.figures.figure import INTERVAL, Figure, View, told
from app.figures.loads import (
    GROWING,
    LoadPanel,
    brackets,
    growing,
    load_axis,
    load_panels,
    results_of,
    segments,
    tested,
)

QUANTILES = ("p50", "p95")
SHADED = "Shaded: above the last load at which every arm's queue is stable; hollow: this arm's queue grows there."

Measured = Callable[[ArmResult], Estimate | None]


def latency_by_load(report: Report, view: View) -> Figure:
    """End-to-end latency from the due time against the offered load: p50 and p95."""
    told_at, silence = _told_quantiles(report, view, load_panels(report, view))
    return _by_load(
        report,
        view,
        name="latency_by_load",
        title="Latency as the load rises",
        caption=f"End-to-end latency from the due time; lower is better. {SHADED}{silence}",
        y_title="E2E latency (ms)",
        measured={q: lambda r, q=q: r.e2e_ms.get(q) for q in told_at},
    )


def throughput_by_load(report: Report, view: View) -> Figure:
    """Output tokens per second of successful requests against the offered load."""
    return _by_load(
        report,
        view,
        name="throughput_by_load",
        title="Throughput as the load rises",
        caption=f"Output tokens of served requests per second; where a line flattens, capacity is reached. {SHADED}",
        y_title="Output throughput (tokens/s)",
        measured={"": lambda r: r.output_throughput_tps},
    )


def latency_throughput(report: Report, view: View) -> Figure:
    """Latency against the throughput that came with it, one point for each load."""
    found = load_panels(report, view)
    told_at, silence = _told_quantiles(report, view, found)
    panels = [(q, panel) for q in told_at for panel in found]
    lines = [
        Line(arm, index, tuple(_pairs(rows, quantile)))
        for index, (quantile, panel) in enumerate(panels)
        for arm, rows in results_of(report, panel, view).items()
    ]
    titles = ("Output throughput (tokens/s)", "E2E latency (ms)")
    frame = Frame(
        "latency_throughput",
        tuple(f"{panel.title} · {quantile}" for quantile, panel in panels),
        max(len(found), 1),
        *titles,
        shapes=tuple(_grown(report, view, panels, lines)),
        y_axis={"rangemode": "tozero"},
    )
    return Figure(
        name=frame.name,
        title="Latency against throughput",
        caption="A point for each load, joined from low to high; further right and lower is better. Hollow: this arm's "
        "queue grows there, and from the least such throughput on it is shaded. Thick: here the arm stops helping."
        + silence,
        headers=("arm", "panel", "load", titles[0], "throughput low", "throughput high", titles[1], *INTERVAL, "queue"),
        rows=tuple(
            (arm, f"{panel.title} · {q}", p.offered, along.value, along.low, along.high, *told(e), r.saturation.lower())
            for q, panel in panels
            for arm, rows in results_of(report, panel, view).items()
            for p, r in rows
            if (e := r.e2e_ms.get(q)) and (along := r.output_throughput_tps)
        ),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines),
    )


def _by_load(
    report: Report, view: View, *, name: str, title: str, caption: str, y_title: str, measured: Mapping[str, Measured]
) -> Figure:
    found = load_panels(report, view)
    panels = [(words, measure, panel) for words, measure in measured.items() for panel in found]
    titles = tuple(f"{panel.title} · {words}" if words else panel.title for words, _, panel in panels)
    places = [_moved(panel, index) for index, (_, _, panel) in enumerate(panels)]
    frame = Frame(
        name,
        titles,
        max(len(found), 1),
        load_axis(found),
        y_title,
        shapes=tuple(s for p in places for shape in (growing, brackets) for s in shape(report, p)),
        x_axis=tested(found),
        y_axis={"rangemode": "tozero"},
    )
    seen = [
        (arm, index, p, r, e)
        for index, (_, measure, panel) in enumerate(panels)
        for arm, rows in results_of(report, panel, view).items()
        for p, r in rows
        if (e := measure(r)) is not None
    ]
    lines = [
        Line(arm, index, tuple(_at_load(p, r, e) for a, i, p, r, e in seen if (a, i) == (arm, index)))
        for arm, index in dict.fromkeys((arm, index) for arm, index, *_ in seen)
    ]
    return Figure(
        name=name,
        title=title,
        caption=caption,
        headers=("arm", "panel", frame.x_title, y_title, *INTERVAL, "queue"),
        rows=tuple((arm, titles[i], p.level, *told(e), r.saturation.lower()) for arm, i, p, r, e in seen),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines),
    )


def _told_quantiles(report: Report, view: View, found: Sequence[LoadPanel]) -> tuple[list[str], str]:
    """The quantiles that some result has, and why one that is left out has no value."""
    rows = [r for panel in found for told_rows in results_of(report, panel, view).values() for _, r in told_rows]
    estimates = {q: [e for r in rows if (e := r.e2e_ms.get(q))] for q in QUANTILES}
    known = [q for q, every in estimates.items() if any(e.value is not None for e in every)]
    whys = {q: next((e.why for e in every if e.why), None) for q, every in estimates.items() if q not in known}
    return known or [QUANTILES[0]], "".join(f" No {q}: it {why}." for q, why in whys.items() if why)


def _at_load(point: LoadPoint, result: ArmResult, value: Estimate) -> Dot:
    words = f"{result.arm} at {point.offered}"
    return dot(point.level, value, words, hollow=result.saturation in GROWING)


def _pairs(rows: list[tuple[LoadPoint, ArmResult]], quantile: str) -> Iterator[Dot]:
    for point, result in rows:
        latency, along = result.e2e_ms.get(quantile), result.output_throughput_tps
        if latency is not None and along.value is not None:
            words = f"{result.arm} at {point.offered}, {along.value:.4g} tokens/s"
            yield dot(along.value, latency, words, along=along, hollow=result.saturation in GROWING)


def _grown(
    report: Report, view: View, panels: list[tuple[str, LoadPanel]], lines: list[Line]
) -> Iterator[dict[str, object]]:
    """Throughputs from the least on at which a queue grows, and where arms cross."""
    for index, (quantile, panel) in enumerate(panels):
        here = [d for line in lines if line.panel == index for d in line.dots]
        full = [float(d.at) for d in here if d.hollow]
        if full:
            most = max(float(d.at) for d in here)
            yield upright(index, min(full), most * 1.06, "saturated")
        at = {
            (arm, p.name): (x, y)
            for arm, rows in results_of(report, panel, view).items()
            for p, r in rows
            if (x := r.output_throughput_tps.value) is not None and (y := _latency(r, quantile)) is not None
        }
        yield from segments(report, panel, index, at)


def _latency(result: ArmResult, quantile: str) -> float | None:
    found = result.e2e_ms.get(quantile)
    return None if found is None else found.value


def _moved(panel: LoadPanel, index: int) -> LoadPanel:
    return LoadPanel(index, panel.workload, panel.kind, panel.loads, panel.title)
