"""Handmade explanations of the sample report: every number is chosen, none is measured."""

from collections.abc import Iterator

from app.domain.counterfactual import CounterfactualK, Headroom
from app.domain.explanation import PARTS, Explanation, SavedTime
from app.domain.manifest import Manifest
from app.domain.statistics import Estimate

SAVED_MS = (61.2, -18.4, 2.1, -0.3, 0.4)


def told(value: float | None, unit: str, why: str | None = None) -> Estimate:
    limits = (None, None) if value is None else (value - 0.1, value + 0.1)
    return Estimate(value=value, low=limits[0], high=limits[1], n=5, unit=unit, source="chosen", why=why)


def sample_explanations(manifest: Manifest) -> Iterator[Explanation]:
    """Every candidate condition; the draft's at the high load is not observable."""
    for arm in manifest.candidates:
        for workload in manifest.workloads:
            for load in manifest.loads:
                known = (arm.name, load.name) != ("draft-k4", "high")
                yield _explanation(arm.name, workload.name, load.name, known=known)


def _explanation(arm: str, workload: str, load: str, *, known: bool) -> Explanation:
    def estimate(value: float, unit: str) -> Estimate:
        return told(value, unit) if known else told(None, unit, "not observable: no histograms")

    return Explanation(
        arm=arm,
        workload=workload,
        load=load,
        saved_ms=estimate(sum(SAVED_MS), "ms"),
        parts=tuple(
            SavedTime(part=part, saved_ms=estimate(ms, "ms")) for part, ms in zip(PARTS, SAVED_MS, strict=True)
        ),
        tokens_per_step=estimate(2.4, "tokens / step"),
        step_cost=estimate(1.35, "ratio"),
        draft_cost=0.0875 if known else None,
        alpha=0.62,
        foretold_if_independent=1.71 if known else None,
        foretold_decode=estimate(1.78, "ratio"),
        foretold_request=estimate(1.61, "ratio"),
        measured_request=estimate(1.48, "ratio"),
        words=f"{PARTS[0]} saved 61.2 ms a request; {PARTS[1]} cost 18.4 ms" if known else "not observable",
    )


def sample_counterfactuals() -> Iterator[CounterfactualK]:
    """Of the draft: shorter ones are a range, its own k is not."""
    for k in (1, 2, 4):
        own = k == 4
        yield CounterfactualK(
            arm="draft-k4",
            workload="tasks",
            load="low",
            k=k,
            tokens_per_step_low=1 + k / 4,
            tokens_per_step_high=1 + k / 4 + (0 if own else 0.1),
            step_cost=1 + k / 10,
            decode_speedup_low=1.1,
            decode_speedup_high=1.1 if own else 1.2,
            checked_by="draft-k4" if own else None,
            measured_tokens_per_step=2.03 if own else None,
        )


def sample_headroom(manifest: Manifest) -> Iterator[Headroom]:
    for workload in manifest.workloads:
        for load in manifest.loads:
            yield Headroom(
                workload=workload.name,
                load=load.name,
                best_arm=told(1.3, "ratio"),
                per_request=told(None, "ratio", "at least two complete blocks are needed"),
            )
