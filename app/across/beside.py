"""Reports side by side, as a pure function of them."""

from collections.abc import Iterator, Sequence
from typing import Final

from app.across.schemas import Across, Cell, Column, ConditionRow, PinRow
from app.domain.condition import Condition
from app.domain.manifest import Manifest
from app.domain.pairing import ALL
from app.domain.report import Report, Verdict
from app.domain.rests_on import pins_of
from app.domain.vocabulary import BASELINE_ARM
from app.experiments.schemas import ExperimentRead

UNCONTROLLED: Final = (
    "Each experiment was measured by itself, at another time and perhaps on another host. Within one, arms are "
    "compared block by block; between two, nothing was controlled, so no ratio between them is given."
)
"""Of every comparison across experiments."""


def beside(experiments: Sequence[tuple[ExperimentRead, Report]]) -> Across:
    """The experiments in the order given."""
    reports = [report for _, report in experiments]
    return Across(
        experiments=[_column(experiment, report) for experiment, report in experiments],
        pins=_pins(reports),
        warnings=[UNCONTROLLED, *_warnings(experiments)],
        conditions=_conditions(reports),
    )


def _column(experiment: ExperimentRead, report: Report) -> Column:
    return Column(
        id=experiment.id,
        name=experiment.name,
        state=experiment.state,
        blocks_complete=report.blocks_complete,
        blocks_planned=report.blocks_planned,
        interim=report.interim,
    )


def _pins(reports: Sequence[Report]) -> list[PinRow]:
    """Every pin of any of them; the sort is stable, so that those that differ keep their order."""
    stated = [{pin.what: pin.value for pin in pins_of(r.manifest, r.analysis_version)} for r in reports]
    names = dict.fromkeys(what for pins in stated for what in pins)
    rows = [PinRow(what=what, values=(v := [p.get(what) for p in stated]), differs=len({*v}) > 1) for what in names]
    return sorted(rows, key=lambda row: not row.differs)


def _warnings(experiments: Sequence[tuple[ExperimentRead, Report]]) -> Iterator[str]:
    manifests = [report.manifest for _, report in experiments]
    yield from _asked(manifests)
    if len({m.target_model for m in manifests}) > 1:
        yield "The target model is not the same everywhere: its own speed differs, and so may every ratio."
    if len({(m.margins.model_dump_json(), m.slo.model_dump_json()) for m in manifests}) > 1:
        yield "Margins or objectives are not the same everywhere: the same numbers may have been given other words."
    if len({report.analysis_version for _, report in experiments}) > 1:
        yield "The reports are of different versions of the analysis."
    for experiment, report in experiments:
        if report.interim:
            done = f"{report.blocks_complete} of {report.blocks_planned} blocks"
            yield f"{experiment.name} ({experiment.id[:12]}) is not finished, {done}: its words are no decision."


def _asked(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Where requests or loads are not the same."""
    for workload in _names(manifests, "workloads"):
        traces = {w.trace for m in manifests for w in m.workloads if w.name == workload}
        if len(traces) > 1:
            yield f"The workload {workload} is not the same trace everywhere: its numbers are of other requests."
    for load in _names(manifests, "loads"):
        offered = sorted({p.offered for m in manifests for p in m.loads if p.name == load})
        if len(offered) > 1:
            yield f"The load {load} is not the same everywhere: {', '.join(offered)}."
    if not set.intersection(*({w.name for w in m.workloads} for m in manifests)):
        yield "No workload is in all of them: the rows below are each of some only."


def _names(manifests: Sequence[Manifest], field: str) -> list[str]:
    """Of parts that more than one of them may have."""
    return list(dict.fromkeys(part.name for manifest in manifests for part in getattr(manifest, field)))


def _conditions(reports: Sequence[Report]) -> list[ConditionRow]:
    found = [{Condition(v.arm, v.workload, v.load): v for v in report.verdicts} for report in reports]
    order = dict.fromkeys(condition for verdicts in found for condition in verdicts)
    rows: list[ConditionRow] = []
    for asked in order:
        first = next(r for r, verdicts in zip(reports, found, strict=True) if asked in verdicts)
        cells = [
            _cell(report, verdicts[asked], first) if asked in verdicts else None
            for report, verdicts in zip(reports, found, strict=True)
        ]
        rows.append(ConditionRow(arm=asked.arm, workload=asked.workload, load=asked.load, cells=cells))
    return rows


def _cell(report: Report, verdict: Verdict, first: Report) -> Cell:
    here = (verdict.arm, verdict.workload, verdict.load)
    primary = next((c for c in report.comparisons if c.primary and (c.arm, c.workload, c.load) == here), None)
    return Cell(
        word=verdict.word,
        ratio=verdict.ratio,
        simultaneous_low=primary.simultaneous_low if primary else None,
        simultaneous_high=primary.simultaneous_high if primary else None,
        metric=verdict.metric,
        exploratory=verdict.exploratory,
        baseline_e2e_p50_ms=_baseline(report, verdict),
        unlike=list(_unlike(report.manifest, first.manifest, verdict)),
    )


def _baseline(report: Report, verdict: Verdict) -> float | None:
    asked = (BASELINE_ARM, verdict.workload, verdict.load, ALL)
    found = next((r for r in report.results if (r.arm, r.workload, r.load, r.stratum) == asked), None)
    told = None if found is None else found.e2e_ms.get("p50")
    return None if told is None else told.value


def _unlike(manifest: Manifest, first: Manifest, verdict: Verdict) -> Iterator[str]:
    """What the same names stand for, where it is not the same."""
    ours, theirs = (
        {
            "another configuration of the arm": next((a for a in m.arms if a.name == verdict.arm), None),
            "other requests": next((w.trace for w in m.workloads if w.name == verdict.workload), None),
            "another load": next((p.offered for p in m.loads if p.name == verdict.load), None),
        }
        for m in (manifest, first)
    )
    yield from (what for what in ours if ours[what] != theirs[what])
