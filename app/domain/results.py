"""What each arm did, in itself: one ``ArmResult`` per condition and stratum, pooled over complete blocks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, draft_counts
from app.domain.arm_acceptance import by_counters, by_requests
from app.domain.condition import Condition, expand
from app.domain.distribution import Distribution, distribution
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.goodput import Good, good_of, good_share, mean_goodput
from app.domain.latency import (
    e2e_ns,
    itl_chunk_ns,
    itl_token_ns,
    lateness_ns,
    milliseconds,
    output_throughput_tps,
    output_tokens,
    tpot_ns,
    ttft_ns,
    window_s,
)
from app.domain.observation import RequestObservation
from app.domain.output_position import AlongOutput, Placed, along_output, placed_steps
from app.domain.pairing import ALL, CompleteBlocks, strata_of, within
from app.domain.startup_gates import without_request_counts
from app.domain.statistics import (
    QUANTILES,
    Estimate,
    mean_over_blocks,
    quantile_over_runs,
)
from app.domain.vocabulary import NS_PER_MS, Outcome, Saturation


class TokenCounts(BaseModel):
    """Tokens over all blocks. What an engine cannot tell apart by stratum is ``None``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: int
    cached: int
    """Of the prompt, those that the prefix cache already held."""
    requested: int | None
    """Output tokens asked for at most."""
    drafted: int | None
    accepted: int | None
    rejected: int | None
    """Drafted and not accepted."""
    emitted: int


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
    """``p50``, ``p95``, ``p99`` → the typical run's quantile, from the due time; gated by sample size."""
    tpot_ms: dict[str, Estimate]
    itl_chunk_ms: dict[str, Estimate]
    """Between chunks as they came; a chunk carries several tokens when drafts are accepted."""
    itl_token_ms: dict[str, Estimate]
    """Each inter-chunk time shared out over its chunk's tokens."""
    queue_ms: dict[str, Estimate]
    """Waiting inside the engine, by its own word."""
    e2e_ms: dict[str, Estimate]
    lateness_ms: dict[str, Estimate]
    distributions: dict[str, Distribution] = {}
    """``ttft_ms``, ``tpot_ms``, ``e2e_ms`` → the whole distribution; only of all strata together."""
    output_throughput_tps: Estimate
    request_throughput_rps: Estimate
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
    acceptance_band: tuple[Estimate, ...] = ()
    """The unconditional one with intervals that hold together over all positions."""
    conditional_acceptance_band: tuple[Estimate, ...] = ()
    acceptance_along_output: AlongOutput
    tokens: TokenCounts
    saturation: Saturation


def arm_results(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, saturation: Mapping[Condition, Saturation]
) -> tuple[ArmResult, ...]:
    """Every condition and stratum of the manifest, in its order."""
    conditions = expand(evidence.manifest)
    return tuple(r for c in conditions for r in _of_condition(evidence, c, blocks.of(c), saturation[c]))


def _of_condition(
    evidence: ExperimentEvidence, condition: Condition, runs: Sequence[RunEvidence], saturation: Saturation
) -> Iterator[ArmResult]:
    blind = without_request_counts(evidence)
    told = not any((run.block, run.arm) in blind for run in runs)
    labels = evidence.labels.get(condition.workload, ())
    placed, rule = _placed(runs) if told else {}, good_of(evidence, condition)
    for stratum, members in strata_of(labels).items():
        yield _arm_result(
            condition,
            stratum,
            members,
            runs,
            asked={r.request_id: r.max_tokens for r in labels},
            placed=placed,
            counts_per_request=told,
            rule=rule,
            saturation=saturation,
        )


def _placed(runs: Sequence[RunEvidence]) -> dict[tuple[int, str], Placed | None]:
    """(block, request) of what drafted → where; once for all strata."""
    return {
        (run.block, o.request_id): placed_steps(o) for run in runs for o in run.observations if draft_counts(o).drafted
    }


def _arm_result(
    condition: Condition,
    stratum: str,
    members: frozenset[str],
    runs: Sequence[RunEvidence],
    *,
    asked: Mapping[str, int | None],
    placed: Mapping[tuple[int, str], Placed | None],
    counts_per_request: bool,
    rule: Good,
    saturation: Saturation,
) -> ArmResult:
    parts = [within(run, members) for run in runs]
    offered = [o for part in parts for o in part]
    served = [o for o in offered if o.outcome is Outcome.SUCCESS]
    told = by_requests(offered, served) if counts_per_request else by_counters(runs, stratum)
    well = [[o for o in part if o.outcome is Outcome.SUCCESS] for part in parts]
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
        ttft_ms=_quantiles((milliseconds(ttft_ns(o)) for o in part) for part in parts),
        tpot_ms=_quantiles((tpot / NS_PER_MS for o in part if (tpot := tpot_ns(o)) is not None) for part in well),
        itl_token_ms=_quantiles((gap / NS_PER_MS for o in part for gap in itl_token_ns(o)) for part in well),
        queue_ms=_quantiles(
            (o.queue_time_ns / NS_PER_MS for o in part if o.queue_time_ns is not None) for part in well
        ),
        itl_chunk_ms=_quantiles((gap / NS_PER_MS for o in part for gap in itl_chunk_ns(o)) for part in well),
        e2e_ms=_quantiles((milliseconds(e2e_ns(o)) for o in part) for part in parts),
        lateness_ms=_quantiles(
            (late / NS_PER_MS for o in part if (late := lateness_ns(o)) is not None) for part in parts
        ),
        distributions=_distributions(parts, len(offered)) if stratum == ALL else {},
        output_throughput_tps=mean_over_blocks([output_throughput_tps(p, s) for p, s in windows], "tokens/s"),
        request_throughput_rps=mean_over_blocks([_served(p) / s for p, s in windows], "requests/s"),
        goodput_rps=mean_goodput([*zip(runs, parts, strict=True)], rule),
        slo_attainment=good_share([*zip(runs, parts, strict=True)], rule),
        acceptance_rate=told.rate,
        mean_length_excl=told.excl,
        mean_length_incl=told.incl,
        mean_length_emit=told.emit,
        acceptance_by_position=told.positions.unconditional,
        conditional_acceptance_by_position=told.positions.conditional,
        acceptance_band=told.band,
        conditional_acceptance_band=told.conditional_band,
        acceptance_along_output=along_output((name, steps) for (_, name), steps in placed.items() if name in members),
        tokens=_tokens(offered, asked, counts_per_request=counts_per_request),
        saturation=saturation,
    )


def _distributions(parts: Sequence[Sequence[RequestObservation]], offered: int) -> dict[str, Distribution]:
    """As the quantiles: over offered requests, but for the time per token, which a failed one does not have."""
    served = [[o for o in part if o.outcome is Outcome.SUCCESS] for part in parts]
    times = {
        "ttft_ms": [[milliseconds(ttft_ns(o)) for o in part] for part in parts],
        "tpot_ms": [[tpot / NS_PER_MS for o in part if (tpot := tpot_ns(o)) is not None] for part in served],
        "e2e_ms": [[milliseconds(e2e_ns(o)) for o in part] for part in parts],
    }
    return {name: distribution(runs, offered=offered) for name, runs in times.items()}


def _tokens(
    offered: Sequence[RequestObservation], asked: Mapping[str, int | None], *, counts_per_request: bool
) -> TokenCounts:
    counts = sum((draft_counts(o) for o in offered), DraftCounts())
    limits = [asked.get(o.request_id) for o in offered]
    told = counts_per_request
    return TokenCounts(
        prompt=sum(o.prompt_tokens or 0 for o in offered),
        cached=sum(o.cached_tokens or 0 for o in offered),
        requested=None if None in limits else sum(limit or 0 for limit in limits),
        drafted=counts.drafted if told else None,
        accepted=counts.accepted if told else None,
        rejected=counts.drafted - counts.accepted if told else None,
        emitted=sum(map(output_tokens, offered)),
    )


def _served(observations: Sequence[RequestObservation]) -> int:
    return sum(o.outcome is Outcome.SUCCESS for o in observations)


def _quantiles(runs_ms: Iterable[Iterable[float]]) -> dict[str, Estimate]:
    ordered = [sorted(run) for run in runs_ms]  # once: what is sorted already is sorted again at no cost
    return {name: quantile_over_runs(ordered, q, "ms") for name, q in QUANTILES.items()}
