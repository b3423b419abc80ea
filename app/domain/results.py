"""What each arm did, in itself: one ``ArmResult`` per condition and stratum, pooled over complete blocks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from app.domain import block_acceptance
from app.domain.acceptance import (
    DraftCounts,
    PositionAcceptance,
    by_position,
    decode_steps,
    draft_counts,
    emitted_after_first,
)
from app.domain.condition import Condition, expand
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.latency import (
    e2e_ns,
    goodput_rps,
    is_good,
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
from app.domain.manifest import Slo
from app.domain.observation import RequestObservation
from app.domain.output_position import AlongOutput, Placed, along_output, placed_steps
from app.domain.pairing import ALL, CompleteBlocks, strata_of, within
from app.domain.startup_gates import without_request_counts
from app.domain.statistics import (
    QUANTILES,
    Estimate,
    attainment,
    mean_over_blocks,
    quantile_estimate,
    ratio_of_totals,
)
from app.domain.vocabulary import NS_PER_MS, Outcome, Saturation

RATE_UNIT = "accepted tokens / drafted token"
EXCL_UNIT = "accepted tokens / draft"
INCL_UNIT = "tokens / draft, with the target's own"
EMIT_UNIT = "emitted tokens / target step"


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
    """``p50``, ``p95``, ``p99`` → pooled quantile from the due time; gated by sample size."""
    tpot_ms: dict[str, Estimate]
    itl_chunk_ms: dict[str, Estimate]
    """Between chunks as they came; a chunk carries several tokens when drafts are accepted."""
    itl_token_ms: dict[str, Estimate]
    """Each inter-chunk time shared out over its chunk's tokens."""
    queue_ms: dict[str, Estimate]
    """Waiting inside the engine, by its own word."""
    e2e_ms: dict[str, Estimate]
    lateness_ms: dict[str, Estimate]
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
    placed = _placed(runs) if told else {}
    for stratum, members in strata_of(labels).items():
        yield _arm_result(
            condition,
            stratum,
            members,
            runs,
            asked={r.request_id: r.max_tokens for r in labels},
            placed=placed,
            counts_per_request=told,
            slo=evidence.manifest.slo,
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
    slo: Slo,
    saturation: Saturation,
) -> ArmResult:
    parts = [within(run, members) for run in runs]
    offered = [o for part in parts for o in part]
    served = [o for o in offered if o.outcome is Outcome.SUCCESS]
    told = _by_requests(offered, served) if counts_per_request else _by_counters(runs, stratum)
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
        itl_token_ms=_quantiles([gap / NS_PER_MS for o in served for gap in itl_token_ns(o)]),
        queue_ms=_quantiles([o.queue_time_ns / NS_PER_MS for o in served if o.queue_time_ns is not None]),
        itl_chunk_ms=_quantiles([gap / NS_PER_MS for o in served for gap in itl_chunk_ns(o)]),
        e2e_ms=_quantiles([milliseconds(e2e_ns(o)) for o in offered]),
        lateness_ms=_quantiles([late / NS_PER_MS for o in offered if (late := lateness_ns(o)) is not None]),
        output_throughput_tps=mean_over_blocks([output_throughput_tps(p, s) for p, s in windows], "tokens/s"),
        request_throughput_rps=mean_over_blocks([_served(p) / s for p, s in windows], "requests/s"),
        goodput_rps=mean_over_blocks([goodput_rps(p, s, slo) for p, s in windows], "requests/s"),
        slo_attainment=attainment([sum(is_good(o, slo) for o in p) for p in parts if p], [len(p) for p in parts if p]),
        acceptance_rate=told.rate,
        mean_length_excl=told.excl,
        mean_length_incl=told.incl,
        mean_length_emit=told.emit,
        acceptance_by_position=told.positions.unconditional,
        conditional_acceptance_by_position=told.positions.conditional,
        acceptance_along_output=along_output((name, steps) for (_, name), steps in placed.items() if name in members),
        tokens=_tokens(offered, asked, counts_per_request=counts_per_request),
        saturation=saturation,
    )


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


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """What was accepted, however it is known."""

    rate: Estimate
    excl: Estimate
    incl: Estimate
    emit: Estimate
    positions: PositionAcceptance


def _by_requests(offered: Sequence[RequestObservation], served: Sequence[RequestObservation]) -> _Acceptance:
    return _Acceptance(
        rate=_clustered(offered, _accepted, _drafted, RATE_UNIT),
        excl=_clustered(offered, _accepted, _drafts, EXCL_UNIT),
        incl=_clustered(offered, _accepted, _drafts, INCL_UNIT, shift=1.0),
        emit=_clustered(served, emitted_after_first, decode_steps, EMIT_UNIT, nothing="no decode step"),
        positions=by_position([o.speculation for o in offered if o.speculation is not None]),
    )


def _by_counters(runs: Sequence[RunEvidence], stratum: str) -> _Acceptance:
    """From the engine's counters, which know all strata together and no decode step without a draft."""
    steps = block_acceptance.untold(EMIT_UNIT, "steps without a draft")
    if stratum != ALL:
        rate, excl, incl = (block_acceptance.untold(u, "strata apart") for u in (RATE_UNIT, EXCL_UNIT, INCL_UNIT))
        return _Acceptance(rate, excl, incl, steps, PositionAcceptance((), ()))
    return _Acceptance(
        rate=block_acceptance.acceptance_rate(runs, RATE_UNIT),
        excl=block_acceptance.length_excl(runs, EXCL_UNIT),
        incl=block_acceptance.length_incl(runs, INCL_UNIT),
        emit=steps,
        positions=block_acceptance.by_position(runs),
    )


def _quantiles(values_ms: Sequence[float]) -> dict[str, Estimate]:
    ordered = sorted(values_ms)  # once: what is sorted already is sorted again at no cost
    return {name: quantile_estimate(ordered, q, "ms") for name, q in QUANTILES.items()}


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
