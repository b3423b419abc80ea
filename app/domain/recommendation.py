"""The one overall answer: which arm to deploy with which command and at what cost, or what it depends on.

An arm is recommended where it helps somewhere, hurts nowhere, is valid everywhere, both regimes were measured, and it
was not picked on the blocks that speak for it: the best of several is named, and is to be confirmed in fresh blocks.
"""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.deployment import serve_command, serve_flags, to_do_before
from app.domain.k_schedule import KSchedule
from app.domain.manifest import Arm, Manifest
from app.domain.selection import Selection
from app.domain.verdict import BLOCKS_FOR_DECISION, Verdict
from app.domain.vocabulary import Purpose, Regime, VerdictWord
from app.domain.weighing import Standing, Weighed


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RegimeAnswer(_Frozen):
    """What would be right for one regime by itself, where no arm is right for both; ``None``: target-only."""

    regime: Regime
    arm: str | None
    sentence: str


class Recommendation(_Frozen):
    """The overall answer and its scope. ``flags`` are what to pass to ``vllm serve``."""

    arm: str | None
    """Recommended for deployment."""
    sentence: str
    scope: str
    flags: tuple[str, ...]
    candidate: str | None = None
    """The best of several arms, which fresh blocks have yet to confirm."""
    command: str = ""
    """Of the arm or candidate, as it was measured; to be copied into a shell."""
    before: tuple[str, ...] = ()
    """What to do before the command can be copied."""
    weighed: tuple[Weighed, ...] = ()
    """Every candidate with its words and its costs, in the manifest's order."""
    by_regime: tuple[RegimeAnswer, ...] = ()
    """Where no arm is right for both regimes."""


def recommend(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    weighed: Sequence[Weighed],
    schedules: Sequence[KSchedule],
    *,
    picked: Selection | None,
    interim: bool,
) -> Recommendation:
    """The answer over everything that the manifest decides on."""
    declared = {arm.name for arm in manifest.decided}
    verdicts = [v for v in verdicts if v.arm in declared]
    first = next((one for one in weighed if one.standing is Standing.FIRST), None)
    answer = Recommendation(arm=None, sentence="", scope=_scope(manifest), flags=(), weighed=tuple(weighed))
    obstacle = _obstacle(manifest, interim=interim)
    if obstacle:
        leaning = "" if first is None else f" So far {first.arm} looks best: {_where(verdicts, first.arm)}."
        return answer.model_copy(update={"sentence": f"{obstacle}{leaning}"})
    if first is None:
        regimes = tuple(_by_regime(manifest, verdicts))
        sentence = f"{_no_arm(manifest, verdicts, regimes)}{_both(schedules)}"
        return answer.model_copy(update={"sentence": sentence, "by_regime": regimes})
    deployed = next((one for one in weighed if one.standing is Standing.AS_DEPLOYED and not _loses(one)), None)
    if deployed is not None:
        return answer.model_copy(update={"sentence": _no_faster(verdicts, first, deployed)})
    arm = next(a for a in manifest.candidates if a.name == first.arm)
    fresh = len(manifest.decided) == 1
    said = _deploy(verdicts, first) if fresh else _confirm(manifest, verdicts, first, picked)
    others = "".join(f" {one.arm} is {_aside(one)}." for one in weighed if one.standing in _SAID)
    named = {"arm": arm.name} if fresh else {"candidate": arm.name}
    return answer.model_copy(update={"sentence": f"{said}{others}", **named, **_to_copy(manifest, arm)})


def _loses(deployed: Weighed) -> bool:
    """Whether the first choice is shown to be faster than target-only is without the settings that arms share."""
    against = deployed.against_first
    return against is not None and against.high is not None and against.high < 1


def _no_faster(verdicts: Sequence[Verdict], first: Weighed, deployed: Weighed) -> str:
    return (
        f"Keep target-only: {first.arm} helps on {_where(verdicts, first.arm)} where both have the same model runner "
        f"and scheduling, but it is not shown to be faster than target-only as it would be deployed ({deployed.arm})."
    )


_SAID = frozenset({Standing.TIED, Standing.BEATEN, Standing.NOT_COMPARED, Standing.FEWER, Standing.MIXED})
"""Standings of rivals that a reader would ask about."""


def _to_copy(manifest: Manifest, arm: Arm) -> dict[str, object]:
    return {
        "flags": serve_flags(manifest, arm),
        "command": serve_command(manifest, arm),
        "before": to_do_before(manifest, arm),
    }


def _deploy(verdicts: Sequence[Verdict], first: Weighed) -> str:
    return f"Deploy {first.arm}: it helps on {_where(verdicts, first.arm)}{_rest(verdicts, first)}. {_cost(first)}"


def _confirm(manifest: Manifest, verdicts: Sequence[Verdict], first: Weighed, picked: Selection | None) -> str:
    flattered = (
        f" ({picked.ratio:.3f} times target-only's speed in the blocks that it was picked by, "
        f"{picked.ratio_left_out:.3f} in blocks left out of the picking)"
        if picked is not None and picked.arm == first.arm
        else ""
    )
    return (
        f"Confirm {first.arm} before it is deployed: it helps on {_where(verdicts, first.arm)}"
        f"{_rest(verdicts, first)}, but it was picked out of {len(manifest.decided)} arms on the same blocks"
        f"{flattered}. The same manifest with {first.arm} alone and another schedule_seed confirms it. {_cost(first)}"
    )


def _rest(verdicts: Sequence[Verdict], first: Weighed) -> str:
    elsewhere = [v for v in verdicts if v.arm == first.arm and v.word is not VerdictWord.HELPS]
    said = "".join(f"; {v.word} on {v.workload} at {v.load}" for v in elsewhere)
    hurt = ", ".join(f"{w.stratum} of {w.workload} at {w.load}" for w in first.strata_hurt)
    return f"{said}; it seems to hurt {hurt} (exploratory)" if hurt else said


def _cost(first: Weighed) -> str:
    return f"It costs: {first.burden.sentence}."


def _aside(one: Weighed) -> str:
    if one.standing is not Standing.MIXED:
        return str(one.standing)
    hurts = ", ".join(f"{w.workload} at {w.load}" for w in one.at(VerdictWord.HURTS))
    return f"no alternative: it helps in places and hurts on {hurts}"


def _obstacle(manifest: Manifest, *, interim: bool) -> str:
    missing = [str(regime) for regime in Regime if regime not in {load.regime for load in manifest.loads}]
    if interim:
        return "Interim: blocks are missing, so nothing is decided."
    if manifest.purpose is Purpose.OVERHEAD_PROFILING:
        return "Overhead profiling: nothing is claimed about outputs, so nothing is recommended."
    if manifest.purpose is Purpose.HOST_CALIBRATION:
        return "Host calibration: the arms are the same, so nothing is recommended; what differs is this host's noise."
    if manifest.blocks < BLOCKS_FOR_DECISION:
        return f"Exploratory: {manifest.blocks} blocks carry no decision, {BLOCKS_FOR_DECISION} are needed."
    if missing:
        return f"No recommendation: the {' and '.join(missing)} regime was not measured."
    return ""


def _no_arm(manifest: Manifest, verdicts: Sequence[Verdict], regimes: Sequence[RegimeAnswer]) -> str:
    """What it depends on, arm by arm."""
    if not any(v.word is VerdictWord.HELPS for v in verdicts):
        counted = ", ".join(f"{word} {n}" for word in VerdictWord if (n := sum(v.word is word for v in verdicts)))
        return f"Keep target-only: no arm was shown to help anywhere ({counted})."
    parts = [
        f"{arm.name} is {word} on {where}"
        for arm in manifest.decided
        for word in (VerdictWord.HELPS, VerdictWord.HURTS, VerdictWord.INVALID)
        if (where := _where(verdicts, arm.name, word))
    ]
    return f"It depends: {'; '.join(parts)}. {' '.join(answer.sentence for answer in regimes)}"


def _both(schedules: Sequence[KSchedule]) -> str:
    """What may have both, yet to be measured."""
    proposed = [f"{', '.join(s.arms)} on {s.workload}" for s in schedules if s.ranges]
    if not proposed:
        return ""
    return f" A schedule of k by batch size, to be measured as an arm, is proposed for {'; '.join(proposed)}."


def _by_regime(manifest: Manifest, verdicts: Sequence[Verdict]) -> Iterator[RegimeAnswer]:
    """An arm that is INVALID anywhere is right for no regime."""
    bad = {v.arm for v in verdicts if v.word is VerdictWord.INVALID}
    for regime in Regime:
        here = [v for v in verdicts if v.regime is regime]
        hurts = {v.arm for v in here if v.word is VerdictWord.HURTS}
        helps = {
            arm.name: sum(v.arm == arm.name and v.word is VerdictWord.HELPS for v in here) for arm in manifest.decided
        }
        able = [arm for arm, n in helps.items() if n and arm not in bad | hurts]
        best = max(able, key=lambda arm: helps[arm], default=None)
        yield RegimeAnswer(regime=regime, arm=best, sentence=_only_for(manifest, regime, best))


def _only_for(manifest: Manifest, regime: Regime, arm: str | None) -> str:
    loads = ", ".join(load.name for load in manifest.loads if load.regime is regime)
    if arm is None:
        return f"For the {regime} regime ({loads}) keep target-only."
    confirmed = "" if len(manifest.decided) == 1 else ", once fresh blocks confirm it"
    deployed = ", ".join(one.name for one in manifest.candidates if one.as_deployed)
    unheld = f"; it was not held against target-only as it would be deployed ({deployed}) there" if deployed else ""
    return f"For the {regime} regime ({loads}) alone {arm} is right{confirmed}{unheld}."


def _where(verdicts: Sequence[Verdict], arm: str, word: VerdictWord = VerdictWord.HELPS) -> str:
    return ", ".join(f"{v.workload} at {v.load}" for v in verdicts if v.arm == arm and v.word is word)


def _scope(manifest: Manifest) -> str:
    """For what the answer holds: this workload, stack and load, never speculation in general."""
    workloads = ", ".join(w.name for w in manifest.workloads)
    loads = ", ".join(f"{load.name} ({load.offered})" for load in manifest.loads)
    return (
        f"{manifest.target_model.partition('@')[0]} on {manifest.hardware.count} x {manifest.hardware.accelerator}, "
        f"{' '.join(manifest.runtime.split()[:2])}; workloads {workloads}; loads {loads}; "
        f"temperature {manifest.sampling.temperature:g}. It says nothing about other workloads, stacks or loads."
    )
