"""What an experiment can show, before it is submitted: from its blocks, its family and the noise of its host.

Every figure is for the declared family's confidence at Holm's first step, so that the plan never promises more than
the first claim of the experiment may spend.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from app.domain.comparison import MetricComparison, family_size
from app.domain.looks import PlannedLook, final_confidence, planned_looks
from app.domain.manifest import Manifest
from app.domain.paired import bonferroni
from app.domain.power import (
    blocks_needed,
    cautious,
    detectable_in_sds,
    fewest_blocks,
    power_beyond,
    power_equivalent,
)
from app.domain.statistics import spread

POWERS: Final = (0.8, 0.9)
FREEDOM_MIN: Final = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Noise(_Frozen):
    """The standard deviation of block log-ratios, and how much of it is known."""

    sd: Annotated[float, Field(ge=0)]
    freedom: Annotated[int, Field(ge=1)] | None = None
    """Blocks that it was seen over, less one for each comparison; ``None`` where it is taken as known."""
    source: str

    @property
    def planned(self) -> float:
        """What to plan with: as known, or so that a fifth of the hosts that show this have more."""
        return self.sd if self.freedom is None else cautious(self.sd, self.freedom)


class PowerAt(_Frozen):
    """What ``power`` buys. Effects are relative; ``None``: not with one block, or not with a thousand."""

    power: float
    detectable: float | None
    """The least effect that these blocks tell from none."""
    helps_from: float | None
    """The least true effect that they call HELPS: it must clear the margin too."""
    blocks_for_margin: int | None
    """To tell an effect as large as the margin from none."""
    blocks_for_twice_margin: int | None
    """To call an effect of twice the margin HELPS."""
    blocks_for_equivalence: int | None
    """To call no effect EQUIVALENT."""


class ConditionPlan(_Frozen):
    """One workload at one load."""

    workload: str
    load: str
    noise: Noise
    sd: float
    """Planned with."""
    at: tuple[PowerAt, ...]
    equivalent_power: float
    """The chance that an arm without any effect is called EQUIVALENT."""


class PowerPlan(_Frozen):
    """An experiment's power; ``sentences`` say it in words."""

    blocks: int
    delta: float
    family: int
    conditions: tuple[ConditionPlan, ...]
    sentences: tuple[str, ...]


class Seen(NamedTuple):
    """Noise of single conditions, and of all together for those that were not measured."""

    by_condition: Mapping[tuple[str, str], Noise]
    pooled: Noise | None


def seen_in(comparisons: Sequence[MetricComparison], source: str) -> Seen:
    """The noise that an experiment's primary comparisons show; their variances are pooled by their freedom."""
    groups: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for c in comparisons:
        if c.primary and len(c.log_ratios) > FREEDOM_MIN:
            groups[c.workload, c.load].append((spread(c.log_ratios), len(c.log_ratios) - 1))
    every = [one for members in groups.values() for one in members]
    return Seen(
        {key: _pooled(members, source) for key, members in groups.items()}, _pooled(every, source) if every else None
    )


def _pooled(members: Sequence[tuple[float, int]], source: str) -> Noise:
    freedom = sum(n for _, n in members)
    sd = math.sqrt(sum(sd**2 * n for sd, n in members) / freedom)
    # Arms of a block share its target-only run, so their comparisons tell less than as many apart would.
    return Noise(sd=sd, freedom=max(n for _, n in members), source=source)


def power_plan(manifest: Manifest, noise: Noise, seen: Mapping[tuple[str, str], Noise] | None = None) -> PowerPlan:
    """``seen`` has the noise of conditions that are known by themselves; ``noise`` stands for the others."""
    known = seen or {}
    conditions = tuple(
        _condition(manifest, workload.name, load.name, known.get((workload.name, load.name), noise))
        for workload in manifest.workloads
        for load in manifest.loads
    )
    return PowerPlan(
        blocks=manifest.blocks,
        delta=manifest.margins.delta,
        family=family_size(manifest),
        conditions=conditions,
        sentences=tuple(_sentences(manifest, conditions)),
    )


def _condition(manifest: Manifest, workload: str, load: str, noise: Noise) -> ConditionPlan:
    margin, together = (
        math.log1p(manifest.margins.delta),
        bonferroni(final_confidence(manifest), family_size(manifest)),
    )
    sd = noise.planned
    return ConditionPlan(
        workload=workload,
        load=load,
        noise=noise,
        sd=sd,
        at=tuple(_at(power, manifest.blocks, sd, margin, together) for power in POWERS),
        equivalent_power=power_equivalent(margin, sd, manifest.blocks, confidence=together),
    )


def _at(power: float, blocks: int, sd: float, margin: float, confidence: float) -> PowerAt:
    least = None if blocks <= 1 else sd * detectable_in_sds(blocks, confidence, power)
    return PowerAt(
        power=power,
        detectable=None if least is None else math.expm1(least),
        helps_from=None if least is None else math.expm1(margin + least),
        blocks_for_margin=blocks_needed(sd, margin, confidence, power=power),
        blocks_for_twice_margin=blocks_needed(sd, 2 * margin, confidence, margin=margin, power=power),
        blocks_for_equivalence=fewest_blocks(lambda n: power_equivalent(margin, sd, n, confidence=confidence), power),
    )


def _sentences(manifest: Manifest, conditions: Sequence[ConditionPlan]) -> Iterator[str]:
    delta, size = manifest.margins.delta, family_size(manifest)
    for c in conditions:
        first, where = c.at[0], f"{c.workload} at {c.load}"
        if first.helps_from is None:
            yield f"{where}: one block can show nothing."
            continue
        yield (
            f"{where}: with {manifest.blocks} blocks and noise of {c.sd:.1%} a gain of {first.helps_from:.1%} or more "
            f"is called HELPS in {first.power:.0%} of experiments, none at all EQUIVALENT in {c.equivalent_power:.0%}."
        )
        yield (
            f"{where}: {_said(first.blocks_for_margin)} tell a gain of {delta:.0%} from none, "
            f"{_said(first.blocks_for_equivalence)} show that there is none."
        )
    everything = math.prod(_clears(c, manifest) for c in conditions) ** len(manifest.decided)
    yield (
        f"Where the arms gain twice the margin ({2 * delta:.0%}) in all {size} comparisons of the family, every one is "
        f"called HELPS in about {everything:.0%} of experiments."
    )
    yield from _of_looks(manifest, conditions)


def _clears(condition: ConditionPlan, manifest: Manifest) -> float:
    return _helps_at(condition, manifest, PlannedLook(manifest.blocks, final_confidence(manifest)))


def _helps_at(condition: ConditionPlan, manifest: Manifest, look: PlannedLook) -> float:
    """The chance that a gain of twice the margin is called HELPS at that look, at Holm's first step."""
    margin, together = math.log1p(manifest.margins.delta), bonferroni(look.confidence, family_size(manifest))
    return power_beyond(2 * margin, condition.sd, look.blocks, margin=margin, confidence=together)


def _of_looks(manifest: Manifest, conditions: Sequence[ConditionPlan]) -> Iterator[str]:
    """What each look may spend, how often it ends the experiment, and what that saves; nothing without looks."""
    *early, end = planned_looks(manifest)
    error, stopped, saved = 1 - manifest.margins.confidence, 0.0, 0.0
    for look in early:
        chance = math.prod(_helps_at(c, manifest, look) for c in conditions) ** len(manifest.decided)
        saved += max(chance - stopped, 0.0) * (1 - look.blocks / end.blocks)
        stopped = max(stopped, chance)
        yield (
            f"Look after {look.blocks} of {end.blocks} blocks: it spends {look.error:.2%} of the {error:.0%} error, "
            f"and ends about {chance:.0%} of experiments whose arms all gain twice the margin."
        )
    if early:
        yield (
            f"Of such experiments the looks save about {saved:.0%} of the time on accelerators; "
            f"the end spends {end.error:.2%}."
        )


def _said(blocks: int | None) -> str:
    return "no affordable number of blocks would" if blocks is None else f"{blocks} blocks"
