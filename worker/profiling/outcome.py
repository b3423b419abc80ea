"""What profiling an arm told: the trace's steps, and beside them what a step costs by the engine's own metrics."""

from pydantic import BaseModel, ConfigDict, computed_field

from app.domain.exposition import Exposition
from app.domain.step_profile import StepProfile
from app.domain.vocabulary import Method

STEP_METRIC = "vllm:inter_token_latency_seconds"
"""Observed once for each request and each step that gave it tokens, however many: it is a step's whole time."""
MS_PER_S = 1_000


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineStep(_Frozen):
    """A stretch of requests by the engine's metrics: request-steps after the first token, and their mean."""

    n: int
    mean_ms: float | None
    """``None`` where no request had a second step."""


class ArmProfile(_Frozen):
    """One arm."""

    arm: str
    method: Method
    k: int | None
    load: str
    requests: int
    """In each stretch; the same ones in all three."""
    concurrency: int
    profile: StepProfile
    before: EngineStep
    """Unprofiled, like ``after``: what drifts while it all runs is on both sides of the profiled stretch."""
    profiled: EngineStep
    after: EngineStep
    trace_path: str
    """The file, for those who want to see it on a time line."""

    @computed_field
    @property
    def overhead(self) -> float | None:
        """What the profiler adds to a step: profiled / mean of before and after, less 1."""
        if self.before.mean_ms is None or self.profiled.mean_ms is None or self.after.mean_ms is None:
            return None
        return self.profiled.mean_ms / ((self.before.mean_ms + self.after.mean_ms) / 2) - 1

    @computed_field
    @property
    def drift(self) -> float | None:
        """After / before, less 1: what the host does to a step by itself. A smaller overhead is not told from it."""
        if self.before.mean_ms is None or self.after.mean_ms is None:
            return None
        return self.after.mean_ms / self.before.mean_ms - 1


def engine_step(before: Exposition, after: Exposition) -> EngineStep:
    """The mean step between two scrapes of one server at rest. Raises ``EvidenceRefused`` without the metric."""
    n, total_s = (
        after.value(f"{STEP_METRIC}_{part}") - before.value(f"{STEP_METRIC}_{part}") for part in ("count", "sum")
    )
    return EngineStep(n=int(n), mean_ms=total_s / n * MS_PER_S if n else None)
