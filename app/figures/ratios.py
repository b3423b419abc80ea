"""Each arm against target-only: by condition, by stratum, as the load rises, and block by block."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain.pairing import ALL
from app.domain.report import Estimate, MetricComparison, Report
from app.figures.drawing import TIMES, Dot, Frame, Line, dot, drawn, margin, ratio_axis, two_lines
from app.figures.figure import INTERVAL, Figure, Metric, View, method, told
from app.figures.loads import GROWING, LoadPanel, brackets, growing, load_axis, load_panels, tested

LANE_PX = 24
MEAN = "mean"
BETTER = "right of the band the arm is better, left of it worse"
NAMES: Mapping[str, str] = {
    Metric.REQUEST_SPEEDUP: "E2E speed-up (p50)",
    Metric.REQUEST_TOTAL_SPEEDUP: "E2E speed-up (mean)",
    Metric.TPOT_SPEEDUP: "TPOT speed-up (p50)",
    Metric.TTFT_SPEEDUP: "TTFT speed-up (p50)",
    Metric.THROUGHPUT_RATIO: "Output throughput ratio",
    Metric.GOODPUT_RATIO: "Goodput ratio",
}


class Placed(NamedTuple):
    """One lane of a forest: its two-line label, and the estimates of one arm in it."""

    arm: str
    place: tuple[str, str]
    value: Estimate
    rests_on: MetricComparison | None = None
    """Whose interval, which holds for all verdicts together, is drawn in place of the estimate's own."""

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Of the interval that is drawn."""
        return _wide(self.rests_on) if self.rests_on else (self.value.low, self.value.high)

    @property
    def cells(self) -> tuple[float | None, float | None, float | None, int, str]:
        """Of a table: value, interval, n and method."""
        how = _wide_method(self.rests_on) if self.rests_on else method(self.value)
        return self.value.value, *self.limits, self.value.n, how


def speedup_by_condition(report: Report, view: View) -> Figure:
    """The answer as a forest plot: each arm's primary ratio in each condition, with the margin band."""
    primary = {(c.arm, c.workload, c.load): c for c in report.comparisons if c.primary}
    placed = [
        Placed(
            v.arm,
            (f"{v.workload} · {v.load}", offered(report, v.load)),
            v.ratio,
            primary.get((v.arm, v.workload, v.load)),
        )
        for v in report.verdicts
        if v.ratio and view.has(v.workload, v.load)
    ]
    return forest(
        report,
        placed,
        name="speedup_by_condition",
        title="Speed-up by workload and load",
        caption=f"Intervals hold for all verdicts together, and the margin is a band: {BETTER}.",
        headers=("workload and load", "offered"),
    )


def speedup_by_stratum(report: Report, view: View) -> Figure:
    """The chosen metric inside each stratum; exploratory, never the verdict's evidence."""
    chosen = [c for c in report.comparisons if c.metric == view.metric and view.keeps(c)]
    inside = [c for c in chosen if c.stratum != ALL or view.stratum == ALL]
    placed = [Placed(c.arm, (c.stratum.removeprefix("task="), f"{c.workload} · {c.load}"), c.ratio) for c in inside]
    return forest(
        report,
        placed,
        name="speedup_by_stratum",
        title="Speed-up inside each stratum",
        caption=f"{NAMES[view.metric]}; exploratory, the verdict rests on all strata together: {BETTER}.",
        headers=("stratum", "workload and load"),
    )


def speedup_by_load(report: Report, view: View) -> Figure:
    """The ratio against the offered load, with the interval that holds for all verdicts together."""
    found = load_panels(report, view)
    seen = [(panel, one) for panel in found for one in _over_loads(report, panel, view)]
    growth = {(r.arm, r.workload, r.load): r.saturation in GROWING for r in report.results if r.stratum == ALL}
    offers = {p.name: p for p in report.manifest.loads}
    lines = [
        Line(
            arm,
            index,
            tuple(_curve_dot(offers[c.load].level, c, growth) for p, c in seen if (c.arm, p.index) == (arm, index)),
        )
        for arm, index in dict.fromkeys((c.arm, panel.index) for panel, c in seen)
    ]
    delta = report.manifest.margins.delta
    limits = [limit for _, c in seen for limit in (c.ratio.value, *_wide(c))]
    shapes = [s for p in found for s in (*margin(p.index, delta), *growing(report, p))]
    crossed = [s for p in found for s in brackets(report, p)] if view.is_primary else []
    frame = Frame(
        "speedup_by_load",
        tuple(panel.title for panel in found),
        max(len(found), 1),
        load_axis(found),
        f"Ratio to target-only ({TIMES}, log scale)",
        shapes=(*shapes, *crossed),
        x_axis=tested(found),
        y_axis=ratio_axis(limits, delta),
        panel_px=260,
    )
    return Figure(
        name=frame.name,
        title="Speed-up as the load rises",
        caption="Above the band an arm helps, below it hurts; intervals hold for all verdicts together where there are "
        "such. Outlined: the loads between which an arm stops helping. Shaded: a queue grows; hollow: this arm's.",
        headers=("arm", "panel", frame.x_title, "ratio", *INTERVAL, "metric"),
        rows=tuple(
            (c.arm, panel.title, offers[c.load].level, c.ratio.value, *_wide(c), c.ratio.n, _wide_method(c), c.metric)
            for panel, c in seen
        ),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines),
    )


def paired_blocks(report: Report, view: View) -> Figure:
    """Every block's ratio, so that an outlier, or a drift over the blocks, can be seen."""
    chosen = [c for c in _at_view(report, view) if c.block_ratios]
    places = list(dict.fromkeys((c.workload, c.load) for c in chosen))
    lines = [line for c in chosen for line in _block_lines(c, places.index((c.workload, c.load)))]
    delta = report.manifest.margins.delta
    names = [*(_block(b) for b in sorted({b for c in chosen for b in _blocks(c)})), MEAN]
    frame = Frame(
        "paired_blocks",
        tuple(f"{w} · {load} ({offered(report, load)})" for w, load in places),
        2 if len(places) > 1 else 1,
        "Block",
        f"Ratio to target-only ({TIMES}, log scale)",
        shapes=tuple(s for i, _ in enumerate(places) for s in margin(i, delta)),
        x_axis={"type": "category", "categoryorder": "array", "categoryarray": names},
        panel_axes=tuple(({}, axis) for axis in _row_axes(chosen, places, delta)),
    )
    return Figure(
        name=frame.name,
        title="Block by block",
        caption=f"{_metrics(chosen)}: each block's ratio of the arm to target-only, and right their mean with its "
        "interval. Points far from the others are outliers; a slope over the blocks is drift.",
        headers=("arm", "workload", "load", "block", "ratio", *INTERVAL, "metric"),
        rows=tuple(row for c in chosen for row in _block_rows(c)),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines),
    )


def forest(
    report: Report, placed: Sequence[Placed], *, name: str, title: str, caption: str, headers: tuple[str, str]
) -> Figure:
    """Lanes down the side, ratios along the foot."""
    places = list(dict.fromkeys(p.place for p in placed))
    arms = [a.name for a in report.manifest.candidates if any(p.arm == a.name for p in placed)]
    delta = report.manifest.margins.delta
    lines = [
        Line(
            arm,
            0,
            tuple(
                Dot(two_lines(*p.place), p.value, ", ".join((arm, *p.place)), *p.limits) for p in placed if p.arm == arm
            ),
            "points",
        )
        for arm in arms
    ]
    frame = Frame(
        name,
        ("",),
        1,
        f"Ratio to target-only ({TIMES}, log scale)",
        "",
        shapes=margin(0, delta, horizontal=True),
        x_axis=ratio_axis((v for p in placed for v in (p.value.value, *p.limits)), delta),
        y_axis={
            "autorange": "reversed",
            "categoryorder": "array",
            "categoryarray": [two_lines(*place) for place in places],
        },
        panel_px=max(len(places), 1) * max(44, LANE_PX * len(arms)),
    )
    return Figure(
        name=name,
        title=title,
        caption=caption,
        headers=("arm", *headers, "ratio", *INTERVAL),
        rows=tuple((p.arm, *p.place, *p.cells) for p in placed),
        height_px=frame.height_px,
        draw=lambda: drawn(report, frame, lines, horizontal=True).update_layout(scattermode="group"),
    )


def offered(report: Report, load: str) -> str:
    """The load in words."""
    return next(p.offered for p in report.manifest.loads if p.name == load)


def _over_loads(report: Report, panel: LoadPanel, view: View) -> list[MetricComparison]:
    loads = [p.name for p in panel.loads]
    chosen = [c for c in _at_view(report, view.model_copy(update={"load": None})) if c.workload == panel.workload]
    return sorted((c for c in chosen if c.load in loads and c.ratio.value), key=lambda c: loads.index(c.load))


def _at_view(report: Report, view: View) -> list[MetricComparison]:
    """The comparisons that verdicts rest on, less those of an INVALID one; or those of another metric or stratum."""
    if view.is_primary:
        valid = {(v.arm, v.workload, v.load) for v in report.verdicts if v.ratio}
        chosen: Iterable[MetricComparison] = (c for c in report.comparisons if c.primary)
        found = [c for c in chosen if (c.arm, c.workload, c.load) in valid]
    else:
        found = [c for c in report.comparisons if c.metric == view.metric and c.stratum == view.one_stratum]
    return [c for c in found if view.has(c.workload, c.load)]


def _wide(comparison: MetricComparison) -> tuple[float | None, float | None]:
    """The interval that verdicts rest on, or the comparison's own where it is not in the family."""
    if comparison.simultaneous_low is None or comparison.simultaneous_high is None:
        return comparison.ratio.low, comparison.ratio.high
    return comparison.simultaneous_low, comparison.simultaneous_high


def _wide_method(comparison: MetricComparison) -> str:
    together = comparison.simultaneous_low is not None
    words = "interval that holds for the whole family; " if together else ""
    return words + (comparison.ratio.source if together else method(comparison.ratio))


def _curve_dot(at: float, comparison: MetricComparison, growth: Mapping[tuple[str, str, str], bool]) -> Dot:
    key = (comparison.arm, comparison.workload, comparison.load)
    words = f"{comparison.arm} on {comparison.workload} at {comparison.load}"
    return Dot(at, comparison.ratio, words, *_wide(comparison), hollow=growth.get(key, False))


def _blocks(comparison: MetricComparison) -> tuple[int, ...]:
    """Reports of before did not say which; theirs are numbered as they come."""
    return comparison.ratio_blocks or tuple(range(len(comparison.block_ratios)))


def _block(index: int) -> str:
    return str(index + 1)


def _block_lines(comparison: MetricComparison, panel: int) -> tuple[Line, Line]:
    source = Estimate(value=None, n=1, unit="ratio", source="one block's ratio")
    each = [
        Dot(_block(b), source.model_copy(update={"value": ratio}), f"{comparison.arm}, block {_block(b)}", None, None)
        for b, ratio in zip(_blocks(comparison), comparison.block_ratios, strict=True)
    ]
    return (
        Line(comparison.arm, panel, tuple(each), "blocks"),
        Line(comparison.arm, panel, (dot(MEAN, comparison.ratio, f"{comparison.arm}, {MEAN}"),), "points"),
    )


def _block_rows(comparison: MetricComparison) -> Iterable[tuple[str | float | None, ...]]:
    where = (comparison.arm, comparison.workload, comparison.load)
    for b, ratio in zip(_blocks(comparison), comparison.block_ratios, strict=True):
        yield (*where, _block(b), ratio, None, None, 1, "one block's ratio", comparison.metric)
    yield (*where, MEAN, *told(comparison.ratio), comparison.metric)


def _row_axes(
    chosen: Sequence[MetricComparison], places: Sequence[tuple[str, str]], delta: float
) -> Iterable[dict[str, object]]:
    """One axis for both panels of a row."""
    for index, _ in enumerate(places):
        row = places[index // 2 * 2 : index // 2 * 2 + 2]
        here = [c for c in chosen if (c.workload, c.load) in row]
        yield ratio_axis((v for c in here for v in (*c.block_ratios, c.ratio.low, c.ratio.high)), delta)


def _metrics(chosen: Sequence[MetricComparison]) -> str:
    return " and ".join(dict.fromkeys(NAMES[c.metric] for c in chosen)) or "The ratio"
