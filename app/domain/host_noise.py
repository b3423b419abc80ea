"""What an A/A experiment says of its host: how far two equal arms differ, and how often that was called an effect.

Both arms are target-only in processes of their own, measured like any pair, so that the same rules judge them.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.manifest import Manifest
from app.domain.report import Report
from app.domain.statistics import Estimate, proportion, spread
from app.domain.vocabulary import BASELINE_ARM, Purpose, VerdictWord

AGAIN: Final = f"{BASELINE_ARM}-again"
SUFFIX: Final = "-aa"
NAME_KEPT: Final = 58
FALSE_ALARMS: Final = frozenset({VerdictWord.HELPS, VerdictWord.HURTS})
BLOCKS_MIN: Final = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConditionNoise(_Frozen):
    """One pair of equal arms at one workload and load."""

    arm: str
    workload: str
    load: str
    word: VerdictWord
    ratio: Estimate | None
    block_sd: float | None
    """Standard deviation of the blocks' log-ratios: 0.04 is about 4 %."""
    detectable: float | None
    """The relative effect that as many blocks as the experiment had would find, with 80 % power."""


class HostNoise(_Frozen):
    """One host, runtime and target, by one A/A experiment."""

    experiment: str
    hardware: str
    runtime: str
    target_model: str
    blocks: int
    conditions: tuple[ConditionNoise, ...]
    false_alarms: Estimate
    """Conditions that were called HELPS or HURTS, over those that were decided at all."""
    invalid: int
    words: str

    @property
    def detectable(self) -> float | None:
        """Of its noisiest condition."""
        return max((c.detectable for c in self.conditions if c.detectable is not None), default=None)


def calibration_of(manifest: Manifest, blocks: int) -> Manifest:
    """The A/A experiment on the same host, runtime, target and workloads. Raises ``ValidationError`` for bad blocks."""
    document = manifest.model_dump(mode="json", exclude_none=True, exclude={"family", "arms"})
    arms = [{"name": name, "speculation": {"method": "target_only"}} for name in (BASELINE_ARM, AGAIN)]
    changed = {
        "name": f"{manifest.name[:NAME_KEPT]}{SUFFIX}",
        "purpose": Purpose.HOST_CALIBRATION,
        "arms": arms,
        "blocks": blocks,
    }
    return Manifest.model_validate({**document, **changed})


def host_noise(report: Report) -> HostNoise | None:
    """Of a finished A/A experiment; ``None`` of any other report, and of one with missing blocks."""
    manifest = report.manifest
    if manifest.purpose is not Purpose.HOST_CALIBRATION or report.interim:
        return None
    conditions = tuple(_conditions(report))
    decided = [c for c in conditions if c.word is not VerdictWord.INVALID]
    alarms = sum(c.word in FALSE_ALARMS for c in decided)
    found = HostNoise(
        experiment=report.experiment,
        hardware=f"{manifest.hardware.count} x {manifest.hardware.accelerator}",
        runtime=manifest.runtime,
        target_model=manifest.target_model,
        blocks=report.blocks_complete,
        conditions=conditions,
        false_alarms=proportion(alarms, len(decided), "share", "no condition was decided"),
        invalid=len(conditions) - len(decided),
        words="",
    )
    return found.model_copy(update={"words": _words(found, manifest.margins.delta)})


def _conditions(report: Report) -> list[ConditionNoise]:
    primary = {(c.arm, c.workload, c.load): c for c in report.comparisons if c.primary}
    found: list[ConditionNoise] = []
    for verdict in report.verdicts:
        comparison = primary.get((verdict.arm, verdict.workload, verdict.load))
        log_ratios = comparison.log_ratios if comparison else ()
        sd = spread(log_ratios) if len(log_ratios) >= BLOCKS_MIN else None
        found.append(
            ConditionNoise(
                arm=verdict.arm,
                workload=verdict.workload,
                load=verdict.load,
                word=verdict.word,
                ratio=comparison.ratio if comparison else None,
                block_sd=sd,
                detectable=comparison.minimum_detectable_effect if comparison else None,
            )
        )
    return found


def _words(noise: HostNoise, delta: float) -> str:
    alarms = noise.false_alarms
    decided = f"{round((alarms.value or 0) * alarms.n)} of {alarms.n} equal pairs were called different"
    if noise.detectable is None:
        return f"{decided}; too few blocks to say how noisy this host is"
    if noise.detectable > delta:
        return (
            f"{decided}; this host is too noisy for a margin of {delta:.0%}: "
            f"with {noise.blocks} blocks only effects of {noise.detectable:.0%} are found everywhere"
        )
    return f"{decided}; with {noise.blocks} blocks effects of {noise.detectable:.1%} are found everywhere"
