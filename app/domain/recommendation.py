"""The one overall answer: which arm to deploy with which command and at what cost, or what it depends on.

An arm is recommended where it helps somewhere, hurts nowhere, is valid everywhere, holds that also against target-only
as it would be deployed, both regimes were measured, and it was not picked on the blocks that speak for it: the best of
several is named, and is to be confirmed in fresh blocks.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.as_deployed import said
from app.domain.deployment import serve_command, serve_flags, to_do_before
from app.domain.finding import BLOCKS_FOR_DECISION
from app.domain.k_schedule import KSchedule
from app.domain.manifest import Arm, Manifest
from app.domain.verdict import Verdict
from app.domain.verdict_words import WordAt, counted, told
from app.domain.vocabulary import Purpose, Regime, VerdictWord
from app.domain.weighing import Standing, Weighed, Weighing


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

    @property
    def command_title(self) -> str:
        """Nobody shall copy a command and miss that it is not yet recommended."""
        return "To deploy it" if self.arm else "As it was measured; confirm it before production"


def recommend(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    weighing: Weighing,
    schedules: Sequence[KSchedule],
    *,
    interim: bool,
) -> Recommendation:
    """The answer over everything that the manifest decides on."""
    declared = {arm.name for arm in manifest.decided}
    verdicts, weighed = [v for v in verdicts if v.arm in declared], weighing.arms
    first = next((one for one in weighed if one.standing is Standing.FIRST), None)
    answer = Recommendation(arm=None, sentence="", scope=_scope(manifest), flags=(), weighed=weighed)
    obstacle = _obstacle(manifest, interim=interim)
    if obstacle:
        leaning = "" if first is None else f" So far {first.arm} looks best: it {_all(verdicts, first.arm)}."
        return answer.model_copy(update={"sentence": f"{obstacle}{_none_valid(verdicts)}{leaning}"})
    if first is None:
        regimes = tuple(_only_for(manifest, regime, arm) for regime, arm in weighing.by_regime.items())
        sentence = f"{_no_arm(manifest, verdicts, weighed, regimes)}{_both(schedules)}"
        return answer.model_copy(update={"sentence": sentence, "by_regime": regimes})
    arm = next(a for a in manifest.candidates if a.name == first.arm)
    fresh = len(manifest.decided) == 1
    helped = f"it {_all(verdicts, first.arm)}{_held(first)}"
    words = f"Deploy {first.arm}: {helped}." if fresh else _confirm(manifest, first, helped)
    others = "".join(f" {_aside(one)}." for one in weighed if one.standing in _SAID)
    named = {"arm": arm.name} if fresh else {"candidate": arm.name}
    update = {"sentence": f"{words} {_cost(first)}{others}", **named, **_to_copy(manifest, arm)}
    return answer.model_copy(update=update)


_SAID = frozenset(
    {
        Standing.TIED,
        Standing.BEATEN,
        Standing.NOT_COMPARED,
        Standing.FEWER,
        Standing.MIXED,
        Standing.BEHIND_DEPLOYED,
    }
)
"""Standings of rivals that a reader would ask about."""


def _to_copy(manifest: Manifest, arm: Arm) -> dict[str, object]:
    return {
        "flags": serve_flags(manifest, arm),
        "command": serve_command(manifest, arm),
        "before": to_do_before(manifest, arm),
    }


def _confirm(manifest: Manifest, first: Weighed, helped: str) -> str:
    """What picking adds by luck is said beside it, by ``selection``: it is of the rule, not of this arm."""
    return (
        f"Confirm {first.arm} before it is deployed: {helped}; but it was picked out of {len(manifest.decided)} arms "
        f"on the same blocks, and the best of several is flattered by luck. The same manifest with {first.arm} alone "
        "and another schedule_seed confirms it."
    )


def _all(verdicts: Sequence[Verdict], arm: str) -> str:
    """``helps on chat at low and is undecided on chat at high``."""
    return told(WordAt(v.word, v.workload, v.load) for v in verdicts if v.arm == arm)


def _held(first: Weighed) -> str:
    deployed = f"; {said(first.against_deployed)}" if first.against_deployed else ""
    hurt = ", ".join(f"{w.stratum} of {w.workload} at {w.load}" for w in first.strata_hurt)
    return f"{deployed}; it seems to hurt {hurt} (exploratory)" if hurt else deployed


def _cost(first: Weighed) -> str:
    return f"It costs: {first.burden.sentence}."


def _aside(one: Weighed) -> str:
    match one.standing:
        case Standing.MIXED:
            hurts = ", ".join(f"{w.workload} at {w.load}" for w in one.at(VerdictWord.HURTS))
            return f"{one.arm} is no alternative: it helps in places and hurts on {hurts}"
        case Standing.BEHIND_DEPLOYED:
            return f"{one.arm} is no alternative: {said(one.against_deployed)}"
        case Standing.FEWER:
            return f"{one.arm} {one.standing}"
        case _:
            return f"{one.arm} is {one.standing}"


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


def _none_valid(verdicts: Sequence[Verdict]) -> str:
    """Arms of which nothing counts, so that nobody waits for more blocks of them."""
    words: dict[str, set[VerdictWord]] = {}
    for v in verdicts:
        words.setdefault(v.arm, set()).add(v.word)
    broken = [arm for arm, seen in words.items() if seen == {VerdictWord.INVALID}]
    return f" More blocks alone will not help {' or '.join(broken)}: invalid everywhere." if broken else ""


def _no_arm(
    manifest: Manifest, verdicts: Sequence[Verdict], weighed: Sequence[Weighed], regimes: Sequence[RegimeAnswer]
) -> str:
    """What it depends on, arm by arm."""
    if not any(v.word is VerdictWord.HELPS for v in verdicts):
        return f"Keep target-only: no arm was shown to help anywhere ({counted(v.word for v in verdicts)})."
    held = {one.arm: said(one.against_deployed) for one in weighed if one.standing is Standing.BEHIND_DEPLOYED}
    parts = "; ".join(
        f"{arm.name} {_all(verdicts, arm.name)}" + (f", but {held[arm.name]}" if arm.name in held else "")
        for arm in manifest.decided
    )
    if all(answer.arm is None for answer in regimes):
        return f"Keep target-only: {parts}."
    return f"It depends: {parts}. {' '.join(answer.sentence for answer in regimes)}"


def _both(schedules: Sequence[KSchedule]) -> str:
    """What may have both, yet to be measured."""
    proposed = [f"{', '.join(s.arms)} on {s.workload}" for s in schedules if s.ranges]
    if not proposed:
        return ""
    return f" A schedule of k by batch size, to be measured as an arm, is proposed for {'; '.join(proposed)}."


def _only_for(manifest: Manifest, regime: Regime, arm: str | None) -> RegimeAnswer:
    loads = ", ".join(load.name for load in manifest.loads if load.regime is regime)
    confirmed = "" if len(manifest.decided) == 1 else ", once fresh blocks confirm it"
    right = "keep target-only" if arm is None else f"alone {arm} is right{confirmed}"
    return RegimeAnswer(regime=regime, arm=arm, sentence=f"For the {regime} regime ({loads}) {right}.")


def _scope(manifest: Manifest) -> str:
    """For what the answer holds: this workload, stack and load, never speculation in general."""
    workloads = ", ".join(w.name for w in manifest.workloads)
    loads = ", ".join(f"{load.name} ({load.offered})" for load in manifest.loads)
    return (
        f"{manifest.target_model.partition('@')[0]} on {manifest.hardware.count} x {manifest.hardware.accelerator}, "
        f"{' '.join(manifest.runtime.split()[:2])}; workloads {workloads}; loads {loads}; "
        f"temperature {manifest.sampling.temperature:g}. It says nothing about other workloads, stacks or loads."
    )
