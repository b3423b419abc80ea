"""Between which tested loads an arm's queue begins to grow, and between which it stops helping (method A9, A10).

Brackets of tested loads, never points between them. What they rest on, words that hold together at the declared error,
holds together for the brackets too.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition
from app.domain.load import LoadPoint
from app.domain.manifest import Manifest
from app.domain.verdict import Verdict
from app.domain.vocabulary import RateKind, Saturation, VerdictWord


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Knee(_Frozen):
    """An arm's capacity on one workload lies between two tested loads; ``None``: beyond the tested ones."""

    arm: str
    workload: str
    kind: RateKind
    last_stable: str | None
    first_saturated: str | None
    sentence: str


class Crossover(_Frozen):
    """The load at which an arm stops helping and begins to hurt lies between two tested loads."""

    arm: str
    workload: str
    kind: RateKind
    helps_to: str | None
    """The largest load with HELPS below any with HURTS."""
    hurts_from: str | None
    """The smallest load with HURTS."""
    between: tuple[str, ...]
    """Tested loads at which it is neither shown to help nor to hurt."""
    sentence: str


def knees(manifest: Manifest, saturation: Mapping[Condition, Saturation]) -> tuple[Knee, ...]:
    """One for each arm and workload, target-only's too, and each way of offering load."""
    return tuple(
        _knee(arm.name, workload.name, loads, {p.name: saturation[_at(arm.name, workload.name, p)] for p in loads})
        for arm in manifest.arms
        for workload in manifest.workloads
        for loads in _scales(manifest)
    )


def crossovers(manifest: Manifest, verdicts: Sequence[Verdict]) -> tuple[Crossover, ...]:
    """One for each candidate and workload that several loads of one kind were offered to."""
    words = {Condition(v.arm, v.workload, v.load): v.word for v in verdicts}
    return tuple(
        _crossover(arm.name, workload.name, loads, [words[_at(arm.name, workload.name, p)] for p in loads])
        for arm in manifest.candidates
        for workload in manifest.workloads
        for loads in _scales(manifest)
        if len(loads) > 1 and all(_at(arm.name, workload.name, p) in words for p in loads)
    )


def _at(arm: str, workload: str, load: LoadPoint) -> Condition:
    return Condition(arm, workload, load.name)


def _scales(manifest: Manifest) -> Iterator[list[LoadPoint]]:
    """Loads low to high; requests/s and clients are different scales."""
    for kind in RateKind:
        if loads := sorted((p for p in manifest.loads if p.kind is kind), key=lambda p: p.level):
            yield loads


def _knee(arm: str, workload: str, loads: Sequence[LoadPoint], states: Mapping[str, Saturation]) -> Knee:
    first = next((p for p in loads if states[p.name] is Saturation.SATURATED), None)
    below = loads if first is None else loads[: loads.index(first)]
    stable = next((p for p in reversed(below) if states[p.name] is Saturation.STABLE), None)
    where = f"{arm} on {workload}"
    if first is None and stable is None:
        sentence = f"{where}: no load is shown to be stable, and none to be saturated."
    elif first is None:
        sentence = f"{where}: the queue is not shown to grow at any load; it is stable to {_said(stable)}."
    elif stable is None:
        sentence = f"{where}: the queue grows at {first.offered}, and no lower load is shown to be stable."
    else:
        sentence = f"{where}: the queue begins to grow between {stable.offered} and {first.offered}."
    return Knee(
        arm=arm,
        workload=workload,
        kind=loads[0].kind,
        last_stable=stable.name if stable else None,
        first_saturated=first.name if first else None,
        sentence=sentence,
    )


def _crossover(arm: str, workload: str, loads: Sequence[LoadPoint], words: Sequence[VerdictWord]) -> Crossover:
    hurts = next((i for i, word in enumerate(words) if word is VerdictWord.HURTS), None)
    helping = [i for i, word in enumerate(words) if word is VerdictWord.HELPS]
    helps = max((i for i in helping if hurts is None or i < hurts), default=None)
    again = hurts is not None and any(i > hurts for i in helping)
    low, high = -1 if helps is None else helps, len(loads) if hurts is None else hurts
    return Crossover(
        arm=arm,
        workload=workload,
        kind=loads[0].kind,
        helps_to=None if helps is None else loads[helps].name,
        hurts_from=None if hurts is None else loads[hurts].name,
        between=tuple(p.name for p in loads[low + 1 : high]),
        sentence=f"{arm} on {workload}: {_crossing(loads, helps, hurts, again=again)}.",
    )


def _crossing(loads: Sequence[LoadPoint], helps: int | None, hurts: int | None, *, again: bool) -> str:
    if again and hurts is not None:
        return (
            f"it hurts at {loads[hurts].offered} and helps at a higher load: there is no one load at which it crosses"
        )
    if helps is None and hurts is None:
        return "it is shown neither to help nor to hurt at any load"
    if helps is None:
        return f"it hurts from {_said(loads[hurts or 0])} on, and is shown to help at no lower load"
    if hurts is None:
        top = helps == len(loads) - 1
        more = "the highest that was tested" if top else "and is shown neither to help nor to hurt above"
        return f"it helps to {loads[helps].offered}, {more}"
    return f"it stops helping between {loads[helps].offered} and {loads[hurts].offered}"


def _said(load: LoadPoint | None) -> str:
    return "none" if load is None else load.offered
