"""What each arm did, in itself: one ``ArmResult`` per condition and stratum, pooled over complete blocks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import by_position, decode_steps, draft_counts, emitted_after_first
from app.domain.condition import Condition, expand
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.latency import (
    e2e_ns,
    goodput_rps,
    is_good,
    itl_chunk_ns,
    lateness_ns,
    milliseconds,
    output_throughput_tps,
    tpot_ns,
    ttft_ns,
    window_s,
)
from app.domain.manifest import Slo
from app.domain.observation import RequestObservation
from app.domain.pairing import CompleteBlocks, strata_of, within
from app.domain.statistics import (
    QUANTILES,
    Estimate,
    attainment,
    mean_over_blocks,
    quantile_estimate,
    ratio_of_totals,
)
from app.domain.vocabulary import NS_PER_MS, Outcome, Saturation


class ArmResult(BaseModel):
    """What one arm did in one condition and stratum, over complete blocks. ``stratum`` is ``all`` or ``task=copy``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    load: str
    stratum: str
    offered: int
    success: int
    outcomes: dict[str, int]
    ttft_ms: dict[str, Estimate]
    """``p50``, ``p95``, ``p99`` → pooled quantile from the due time; gated by sample size."""
    tpot_ms: dict[str, Estimate]
    itl_chunk_ms: dict[str, Estimate]
    e2e_ms: dict[str, Estimate]
    lateness_ms: dict[str, Estimate]
    output_throughput_tps: Estimate
    goodput_rps: Estimate
    slo_attainment: Estimate
    acceptance_rate: Estimate
    mean_length_excl: Estimate
    """accepted / drafts (draft tokens only)."""
    mean_length_incl: Estimate
    """1 + accepted / drafts: vLLM's "mean acceptance length"."""
    mean_length_emit: Estimate
    """Tokens emitted after the first, per target decode step; the one that relates to speed."""
    acceptance_by_position: tuple[float, ...]
    """Unconditional: accepted at position j / drafts."""
    conditional_acceptance_by_position: tuple[float | None, ...]
    saturation: Saturation


def arm_results(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, saturation: Mapping[Condition, Saturation]
) -> tuple[ArmResult, ...]:
    """Every condition and stratum of the manifest, in its order."""
    return tuple(
        _arm_result(
            condition,
            stratum,
            members,
            blocks.of(condition),
            slo=evidence.manifest.slo,
            saturation=saturation[condition],
        )
        for condition in expand(evidence.manifest)
        for stratum, members in strata_of(evidence.labels.get(condition.workload, ())).items()
    )


def _arm_result(
    condition: Condition,
    stratum: str,
    members: frozenset[str],
    runs: Sequence[RunEvidence],
    *,
    slo: Slo,
    saturation: Saturation,
) -> ArmResult:
    parts = [within(run, members) for run in runs]
    offered = [o for part in parts for o in part]
    served = [o for o in offered if o.outcome is Outcome.SUCCESS]
    positions = by_position([o.speculation for o in offered if o.speculation is not None])
    # A stratum shares its run's window: it was served while the others were.
    windows = [
        (part, seconds) for part, run in zip(parts, runs, strict=True) if (seconds := window_s(run.observations))
    ]
    return ArmResult(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        stratum=stratum,
        offered=len(offered),
        success=len(served),
        outcomes=dict(sorted(Counter(str(o.outcome) for o in offered).items())),
        ttft_ms=_quantiles([milliseconds(ttft_ns(o)) for o in offered]),
        tpot_ms=_quantiles([tpot / NS_PER_MS for o in served if (tpot := tpot_ns(o)) is not None]),
        itl_chunk_ms=_quantiles([gap / NS_PER_MS for o in served for gap in itl_chunk_ns(o)]),
        e2e_ms=_quantiles([milliseconds(e2e_ns(o)) for o in offered]),
        lateness_ms=_quantiles([late / NS_PER_MS for o in offered if (late := lateness_ns(o)) is not None]),
        output_throughput_tps=mean_over_blocks([output_throughput_tps(p, s) for p, s in windows], "tokens/s"),
        goodput_rps=mean_over_blocks([goodput_rps(p, s, slo) for p, s in windows], "requests/s"),
        slo_attainment=attainment([sum(is_good(o, slo) for o in p) for p in parts if p], [len(p) for p in parts if p]),
        acceptance_rate=_clustered(offered, _accepted, _drafted, "accepted tokens / drafted token"),
        mean_length_excl=_clustered(offered, _accepted, _drafts, "accepted tokens / draft"),
        mean_length_incl=_clustered(offered, _accepted, _drafts, "tokens / draft, with the target's own", shift=1.0),
        mean_length_emit=_clustered(
            served, emitted_after_first, decode_steps, "emitted tokens / target step", nothing="no decode step"
        ),
        acceptance_by_position=positions.unconditional,
        conditional_acceptance_by_position=positions.conditional,
        saturation=saturation,
    )


def _quantiles(values_ms: Sequence[float]) -> dict[str, Estimate]:
    return {name: quantile_estimate(values_ms, q, "ms") for name, q in QUANTILES.items()}


def _clustered(
    observations: Sequence[RequestObservation],
    numerator: Callable[[RequestObservation], int],
    denominator: Callable[[RequestObservation], int],
    unit: str,
    *,
    shift: float = 0.0,
    nothing: str = "no drafts proposed",
) -> Estimate:
    """A ratio of totals; the blocks repeat each prompt, so a request id is one cluster over all of them."""
    above: dict[str, int] = defaultdict(int)
    below: dict[str, int] = defaultdict(int)
    for o in observations:
        above[o.request_id] += numerator(o)
        below[o.request_id] += denominator(o)
    ids = sorted(above)
    return ratio_of_totals([above[i] for i in ids], [below[i] for i in ids], unit, shift=shift, nothing=nothing)


def _accepted(observation: RequestObservation) -> int:
    return draft_counts(observation).accepted


def _drafted(observation: RequestObservation) -> int:
    return draft_counts(observation).drafted


def _drafts(observation: RequestObservation) -> int:
    return draft_counts(observation).drafts
