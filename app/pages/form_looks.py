"""What is said of a manifest while it is edited: problems, checks, cost, and what its blocks could show."""

from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread

from app.domain.errors import DomainError, FieldProblem, NotFound
from app.domain.estimate import assumed_noise
from app.domain.layout import read_layout
from app.domain.manifest import Manifest, parse_manifest
from app.domain.power_plan import Noise, PowerPlan, power_plan, seen_in
from app.domain.preflight import Check, problems_of
from app.experiments.schemas import ExperimentRead
from app.pages.readings import Readings
from app.preflight.schemas import PreflightRead

CONDITIONS_MAX: Final = 64
"""Workloads by loads beyond which the page does not say for each what can be shown."""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything beside ``problems`` is absent where the document is no manifest."""

    problems: tuple[FieldProblem, ...]
    found: PreflightRead | None = None
    checks: tuple[Check, ...] = ()
    """Each at the field that it was written in."""
    plan: PowerPlan | None = None
    known: ExperimentRead | None = None
    """The experiment that this manifest is, if it was submitted before."""
    nobody: str | None = None
    """Why no worker would take its blocks now."""

    @property
    def measured_effect(self) -> float | None:
        """The smallest effect that every condition can show, by measured noise: no guess stands beside it."""
        at = self.plan.conditions if self.plan else ()
        if not at or any(c.noise.freedom is None for c in at):
            return None
        return max((c.at[0].detectable for c in at if c.at[0].detectable is not None), default=None)


async def look(source: Readings, document: Any, noise_from: str = "") -> Look:
    """Look at a decoded document; nothing is registered."""
    try:
        manifest = parse_manifest(document)
    except DomainError as error:
        return Look(error.problems)
    found, layout = await source.preflights.check(manifest), read_layout(document)
    return Look(
        problems=layout.told(problems_of(found.checks)),
        found=found,
        checks=tuple(c.model_copy(update={"field": layout.written(c.field)}) for c in found.checks),
        plan=await _plan(source, manifest, noise_from),
        known=await _known(source, manifest),
        nobody=await source.experiments.nobody_for(manifest),
    )


async def _plan(source: Readings, manifest: Manifest, noise_from: str) -> PowerPlan | None:
    if len(manifest.workloads) * len(manifest.loads) > CONDITIONS_MAX:
        return None
    noise, seen = await _noise(source, manifest, noise_from)
    return await to_thread.run_sync(power_plan, manifest, noise, seen)


async def _noise(
    source: Readings, manifest: Manifest, noise_from: str
) -> tuple[Noise, dict[tuple[str, str], Noise] | None]:
    """Of the experiment that this one was cloned from, as long as the host is the same; else as assumed."""
    sd, words = assumed_noise(manifest)
    assumed = Noise(sd=sd, source=words)
    if not noise_from:
        return assumed, None
    try:
        known = await source.comparisons.ready(noise_from)
    except DomainError:
        return assumed, None
    report = known.report if known else None
    if report is None or report.manifest.hardware != manifest.hardware:
        return assumed, None
    seen = seen_in(report.comparisons, f"the blocks of {report.name}; planned with its upper 80% limit")
    return (assumed, None) if seen.pooled is None else (seen.pooled, dict(seen.by_condition))


async def _known(source: Readings, manifest: Manifest) -> ExperimentRead | None:
    try:
        return await source.experiments.read(manifest.digest)
    except NotFound:
        return None
