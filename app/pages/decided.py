"""The page of an experiment that is over: its tiles, why a word is open, and where the evidence of each part is."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from app.domain.finding import BLOCKS_MIN
from app.domain.load import LoadPoint
from app.domain.pairing import ALL
from app.domain.report import MetricComparison, Report, Verdict
from app.domain.reproducibility import ItemState
from app.domain.vocabulary import VerdictWord
from app.domain.weighing import PlaceWord
from app.pages.compare import CompareQuery
from app.pages.forest import Axis, Strip, axis_for
from app.pages.gates import BrokenGate, broken_gates
from app.pages.wording import interval, quantity

Place = tuple[str, str, str, str]
"""Arm, workload, load and stratum."""


@dataclass(frozen=True, slots=True)
class Line:
    """One arm within a tile."""

    arm: str
    word: str
    is_exploratory: bool
    comparison: MetricComparison | None
    """``None`` where the verdict allows no number."""
    strip: Strip
    told: str
    """The bar in words."""
    why: str
    """Why it is open, or what qualifies the word; empty where nothing does."""
    gates: tuple[BrokenGate, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """All arms on one stratum at one load."""

    stratum: str
    load: LoadPoint
    address: str
    """Within the compare page."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class TileGroup:
    """One workload: its tiles over all strata, then those of each stratum."""

    workload: str
    whole: tuple[Tile, ...]
    strata: tuple[tuple[Tile, ...], ...]
    words: dict[str, int]
    """Of the strata: word → how often."""
    is_mixed: bool
    """Whether a stratum says otherwise than its workload at that load."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The place that lost most."""

    comparison: MetricComparison
    address: str
    """Within the compare page."""
    cases: str
    """The query of its single requests, the slowest against target-only first."""


def decided(report: Report) -> dict[str, Any]:
    """What the page shows beside the report itself."""
    axis = axis_for((c.ratio for c in _shown(report)), report.manifest.margins.delta)
    gates = broken_gates(
        [r for v in report.verdicts if v.word is VerdictWord.INVALID for r in v.reasons], report.findings
    )
    states = [item.state for item in report.checklist]
    return {
        "tile_axis": axis,
        "tile_groups": list(_groups(report, axis)),
        "worst": worst(report),
        "gates": gates,
        "met": {state: states.count(state) for state in ItemState},
        "controls_told": {
            word: sum(c.outcomes.get(word, 0) for c in report.controls)
            for word in ("pass", "warn", "fail", "not checkable")
        },
        "evidence_of": EVIDENCE,
        "printed_at": datetime.now(UTC),
    }


EVIDENCE: Final = {
    "pins": (("every pin", "#pins-title"), ("manifest", "{api}/manifest")),
    "startup": (
        ("every server and its log", "{compare}#cost-title"),
        ("settings side by side", "{compare}#controls-title"),
    ),
    "workload": (("controls", "{compare}#controls-title"), ("requests as CSV", "{api}/export/csv")),
    "strata": (("every stratum", "{compare}#strata-title"),),
    "swept": (("arms", "#asked-title"), ("what another k would give", "{compare}#why-title")),
    "quantities": (("absolute numbers", "{compare}#strata-title"), ("memory", "{compare}#mechanism-title")),
    "outputs": (("greedy answers", "{compare}#right-title"), ("sampled answers", "{compare}#sampled-title")),
    "loads": (("loads", "#tiles-title"), ("queues", "{compare}#controls-title")),
    "controls": (("controls", "{compare}#controls-title"), ("counts", "{compare}#count-title")),
    "published": (
        ("bundle", "{api}/bundle"),
        ("raw cases", "{cases}"),
        ("in other formats", "{compare}#exports-title"),
    ),
}
"""Item → links to its evidence; ``{api}``, ``{cases}`` and ``{compare}`` are the experiment's addresses."""


def worst(report: Report) -> Worst | None:
    """The stratum with the lowest ratio of its workload's own metric, where an arm is slower there at all."""
    invalid = {(v.arm, v.workload, v.load) for v in report.verdicts if v.word is VerdictWord.INVALID}
    valid = (c for c in _shown(report) if (c.arm, c.workload, c.load) not in invalid)
    slower = [c for c in valid if c.ratio.value is not None and c.ratio.value < 1]
    if not slower:
        return None
    found = min(slower, key=lambda c: (c.ratio.value or 0.0, c.stratum == ALL))
    stratum = {} if found.stratum == ALL else {"stratum": found.stratum}
    chosen = {"arm": found.arm, "workload": found.workload, "load": found.load, **stratum, "sort": "-ratio"}
    return Worst(found, _address(found.workload, found.load, found.stratum), f"?{urlencode(chosen)}")


def why_open(comparison: MetricComparison, delta: float, needed: int | None, *, is_stratum: bool) -> str:
    """Why the word is INCONCLUSIVE, from the limits on which it rests, and how many blocks would decide."""
    blocks, ratio = len(comparison.block_ratios), comparison.ratio
    if blocks < BLOCKS_MIN:
        return f"{blocks} complete blocks, and {BLOCKS_MIN} are needed to say anything."
    low, high = (ratio.low, ratio.high) if is_stratum else (comparison.simultaneous_low, comparison.simultaneous_high)
    if low is None or high is None:
        return "There is no interval to decide on."
    limits = f"{quantity(low, 'ratio')} to {quantity(high, 'ratio')}"
    margin = quantity(delta, "share")
    end = "No affordable number of blocks would decide" if needed is None else f"About {needed} blocks would decide"
    return f"{_left_open(low, high, delta).format(limits=limits, margin=margin)} {end}; it has {blocks}."


def _left_open(low: float, high: float, delta: float) -> str:
    loses, gains = low < 1 / (1 + delta), high > 1 + delta
    if loses and gains:
        return "It may be a loss or a gain: the interval, {limits}, passes the {margin} margin on both sides."
    if gains:
        return "It may be a gain worth having or none: the interval, {limits}, straddles the {margin} margin."
    if loses:
        return "It may be a loss that matters or none: the interval, {limits}, straddles the {margin} margin."
    return "The interval, {limits}, lies inside the {margin} margin, but not yet with enough confidence for EQUIVALENT."


def _shown(report: Report) -> list[MetricComparison]:
    """Of each verdict's place, the comparisons by the metric on which its word rests."""
    metric = {(v.arm, v.workload, v.load): v.metric for v in report.verdicts}
    return [c for c in report.comparisons if metric.get((c.arm, c.workload, c.load)) == c.metric]


def _groups(report: Report, axis: Axis) -> Iterator[TileGroup]:
    verdicts = {(v.arm, v.workload, v.load): v for v in report.verdicts}
    found: dict[Place, MetricComparison] = {(c.arm, c.workload, c.load, c.stratum): c for c in _shown(report)}
    words = {(w.arm, p.workload, p.load, p.stratum): p for w in report.recommendation.weighed for p in w.words}
    loads = sorted(report.manifest.loads, key=lambda p: p.level)
    arms = [arm.name for arm in report.manifest.candidates]

    def tile(workload: str, load: LoadPoint, stratum: str) -> Tile:
        lines: list[Line] = []
        for arm in arms:
            place, verdict = (arm, workload, load.name, stratum), verdicts.get((arm, workload, load.name))
            if verdict is None or (stratum != ALL and place not in words):
                continue
            said = verdict if stratum == ALL else words[place]
            if stratum != ALL and said.word is VerdictWord.INVALID:
                continue  # said once, with its gate, over all strata
            lines.append(_line(report, axis, verdict, said, found.get(place)))
        return Tile(stratum, load, _address(workload, load.name, stratum), tuple(lines))

    for workload, strata in report.strata.items():
        rows = tuple(tuple(tile(workload, load, s) for load in loads) for s in strata if s != ALL)
        kept = tuple(row for row in rows if any(t.lines for t in row))
        counted = [line.word for row in kept for t in row for line in t.lines]
        tally = {str(w): counted.count(w) for w in VerdictWord if w in counted}
        whole = tuple(tile(workload, load, ALL) for load in loads)
        over_all = {(line.arm, t.load.name): line.word for t in whole for line in t.lines}
        mixed = any(line.word != over_all[line.arm, t.load.name] for row in kept for t in row for line in t.lines)
        yield TileGroup(workload, whole, kept, tally, mixed)


def _line(
    report: Report,
    axis: Axis,
    verdict: Verdict,
    said: Verdict | PlaceWord,
    comparison: MetricComparison | None,
) -> Line:
    is_stratum, invalid, word = said is not verdict, said.word is VerdictWord.INVALID, said.word
    shown = None if invalid else comparison
    open_word = shown is not None and word is VerdictWord.INCONCLUSIVE
    delta = report.manifest.margins.delta
    return Line(
        arm=verdict.arm,
        word=str(word),
        is_exploratory=(verdict.exploratory or is_stratum) and not invalid,
        comparison=shown,
        strip=axis.strip(None) if shown is None else _strip(axis, shown, is_stratum=is_stratum),
        told=f"{verdict.arm}: {word}" + ("" if shown is None else f", {_bar(shown)}"),
        why=why_open(shown, delta, said.blocks_needed, is_stratum=is_stratum) if open_word and shown else "",
        gates=broken_gates(verdict.reasons, report.findings) if invalid and not is_stratum else (),
    )


def _strip(axis: Axis, comparison: MetricComparison, *, is_stratum: bool) -> Strip:
    """A stratum's word rests on its own interval, a verdict's on the simultaneous one."""
    if is_stratum:
        return axis.strip(comparison.ratio)
    return axis.strip(comparison.ratio, comparison.simultaneous_low, comparison.simultaneous_high)


def _bar(comparison: MetricComparison) -> str:
    ratio = comparison.ratio
    return f"{quantity(ratio.value, ratio.unit)} {interval(ratio)}".strip()


def _address(workload: str, load: str, stratum: str) -> str:
    return CompareQuery(workload=workload, load=load, stratum=stratum).address("") + "#strata-title"
