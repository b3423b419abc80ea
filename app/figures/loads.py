"""Panels over the offered load: one for each workload and way of offering it, with where queues grow and arms cross."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.domain.brackets import Crossover
from app.domain.load import LoadPoint
from app.domain.report import ArmResult, Report
from app.domain.vocabulary import RateKind, Saturation
from app.figures.drawing import axes, upright
from app.figures.figure import View

AXIS: Mapping[RateKind, str] = {
    RateKind.OPEN_LOOP: "Offered rate (requests/s)",
    RateKind.CLOSED_LOOP: "Clients in a closed loop",
}
BOTH = "Offered load (requests/s, or clients in a closed loop)"
TICKS_MAX = 6
GROWING = frozenset({Saturation.SATURATED, Saturation.SUSPECT})


@dataclass(frozen=True, slots=True)
class LoadPanel:
    """One workload under loads of one kind, low to high."""

    index: int
    workload: str
    kind: RateKind
    loads: tuple[LoadPoint, ...]
    title: str


def load_panels(report: Report, view: View) -> tuple[LoadPanel, ...]:
    """In the manifest's order; the view's load is not left alone, since a curve is about several."""
    kinds = [kind for kind in RateKind if any(p.kind is kind for p in report.manifest.loads)]
    chosen = [w for w in report.strata if view.workload in {None, w}]
    places = [(workload, kind) for workload in chosen for kind in kinds]
    return tuple(
        LoadPanel(
            index,
            workload,
            kind,
            tuple(sorted((p for p in report.manifest.loads if p.kind is kind), key=lambda p: p.level)),
            workload if len(kinds) == 1 else f"{workload} · {AXIS[kind].lower()}",
        )
        for index, (workload, kind) in enumerate(places)
    )


def load_axis(found: Sequence[LoadPanel]) -> str:
    """The title of the axis that all panels share."""
    kinds = {panel.kind for panel in found}
    return AXIS[kinds.pop()] if len(kinds) == 1 else BOTH


def tested(found: Sequence[LoadPanel]) -> dict[str, Any]:
    """Marks the loads themselves where they are few; a curve is known nowhere else."""
    levels = sorted({p.level for panel in found for p in panel.loads})
    return {"tickvals": levels} if len(levels) <= TICKS_MAX else {}


def results_of(report: Report, panel: LoadPanel, view: View) -> dict[str, list[tuple[LoadPoint, ArmResult]]]:
    """Arm → its results at the panel's loads, low first; arms in the manifest's order."""
    chosen = {
        (r.arm, r.load): r for r in report.results if r.workload == panel.workload and r.stratum == view.one_stratum
    }
    rows = {
        arm.name: [(p, chosen[arm.name, p.name]) for p in panel.loads if (arm.name, p.name) in chosen]
        for arm in report.manifest.arms
    }
    return {arm: found for arm, found in rows.items() if found}


def growing(report: Report, panel: LoadPanel) -> Iterator[dict[str, Any]]:
    """Shades the loads above the last one at which no arm's queue grows."""
    level = {p.name: p.level for p in panel.loads}
    found = [
        level[knee.last_stable or knee.first_saturated]
        for knee in report.knees
        if (knee.workload, knee.kind) == (panel.workload, panel.kind) and knee.first_saturated
    ]
    if found:
        yield upright(panel.index, min(found), max(level.values()) * 1.06, "saturated")


def crossings(report: Report, panel: LoadPanel) -> Iterator[tuple[Crossover, int]]:
    """The panel's crossovers that lie between two tested loads, with their arms' slots."""
    slots = {arm.name: slot for slot, arm in enumerate(report.manifest.arms)}
    for one in report.crossovers:
        here = (one.workload, one.kind) == (panel.workload, panel.kind)
        if here and one.helps_to is not None and one.hurts_from is not None:
            yield one, slots[one.arm]


def brackets(report: Report, panel: LoadPanel) -> Iterator[dict[str, Any]]:
    """Between which loads each arm stops helping, on an axis of loads: an outline in the arm's own colour."""
    level = {p.name: p.level for p in panel.loads}
    for one, slot in crossings(report, panel):
        low, high = level[one.helps_to or ""], level[one.hurts_from or ""]
        yield upright(panel.index, low, high, f"crossover-{slot}")


def segments(
    report: Report, panel: LoadPanel, index: int, at: Mapping[tuple[str, str], tuple[float, float]]
) -> Iterator[dict[str, Any]]:
    """The same on axes that have no load: the part of the arm's line between the two loads."""
    x, y = axes(index)
    for one, slot in crossings(report, panel):
        names = [p.name for p in panel.loads]
        first, last = names.index(one.helps_to or ""), names.index(one.hurts_from or "")
        points = [at.get((one.arm, name)) for name in names[first : last + 1]]
        for a, b in pairwise(points):
            if a is not None and b is not None:
                ends = {"x0": a[0], "y0": a[1], "x1": b[0], "y1": b[1]}
                yield {"name": f"crossover-{slot}", "type": "line", "xref": x, "yref": y, **ends}
