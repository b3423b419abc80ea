"""Expand a manifest into conditions (an arm, a workload and a load point), with stable ids."""

from dataclasses import dataclass

from app.domain.manifest import Manifest


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """What one run measures. ``id`` is stable across blocks and readable in a URL."""

    arm: str
    workload: str
    load: str

    @property
    def id(self) -> str:
        """``arm/workload/load``; the parts are names, so the slash is unambiguous."""
        return f"{self.arm}/{self.workload}/{self.load}"


def expand(manifest: Manifest) -> tuple[Condition, ...]:
    """Every condition of the manifest; loads run low to high within a workload."""
    loads = sorted(manifest.loads, key=lambda p: p.level)
    return tuple(
        Condition(arm.name, workload.name, load.name)
        for arm in manifest.arms
        for workload in manifest.workloads
        for load in loads
    )
