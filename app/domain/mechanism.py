"""What the engine and its device did in a condition beside answering: steps, queue, cache, memory, power.

From the series of each run, between the scrapes at rest before and after it; blocks are the unit of uncertainty. What
an engine or host does not tell is an estimate without a value that says why, never a zero.
"""

from collections.abc import Callable, Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.exposition import GENERATION_TOKENS, KV_CACHE_USAGE, PREEMPTIONS
from app.domain.series import DEVICE_MEMORY, ENERGY, ENGINE_CPU, ENGINE_RSS, POWER, SM_CLOCK, Series, having, the_one
from app.domain.statistics import Estimate, mean_over_blocks

ITL = "vllm:inter_token_latency_seconds"
PREFILL = "vllm:request_prefill_time_seconds"
DECODE = "vllm:request_decode_time_seconds"
ITERATION_TOKENS = "vllm:iteration_tokens_total"
PREFIX_QUERIES, PREFIX_HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"

MS_PER_S = 1000
DRAFT_IS_HIDDEN = (
    "not observable: this engine's metrics time a whole step, in which drafting and verification follow each other; "
    "`verdraft profile` tells them apart, in a run apart from timing"
)
NOT_SCRAPED = "not observable: the engine exposes no such metric, or it was not scraped"
NOT_SAMPLED = "not observable: {}"

Measure = Callable[[RunEvidence], float | None]


class Mechanism(BaseModel):
    """One condition; every estimate is a mean of blocks with its t interval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    load: str
    step_ms: Estimate
    """Between two output steps of a request: the target's step alone in target-only, draft and verification in an
    arm that speculates."""
    target_step_ms: Estimate
    draft_step_ms: Estimate
    prefill_ms: Estimate
    decode_ms: Estimate
    """From a request's first token to its last, by the engine's clock."""
    tokens_per_iteration: Estimate
    """Tokens that one step of the engine handled over all its requests, prompts and drafts included."""
    kv_cache_usage_peak: Estimate
    preemptions: Estimate
    prefix_hit_rate: Estimate
    power_w: Estimate
    energy_per_token_j: Estimate
    sm_clock_mhz: Estimate
    device_memory_peak_bytes: Estimate
    engine_rss_peak_bytes: Estimate
    engine_cpu_per_token_ms: Estimate


def mechanism(condition: Condition, runs: Sequence[RunEvidence], *, speculates: bool) -> Mechanism:
    """Of the condition's runs in complete blocks."""
    step = _over(runs, lambda r: histogram_mean(r, ITL, MS_PER_S), "ms")
    alone = not speculates
    return Mechanism(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        step_ms=step,
        target_step_ms=step if alone else _untold("ms", DRAFT_IS_HIDDEN),
        draft_step_ms=_untold("ms", "there is no draft" if alone else DRAFT_IS_HIDDEN),
        prefill_ms=_over(runs, lambda r: histogram_mean(r, PREFILL, MS_PER_S), "ms"),
        decode_ms=_over(runs, lambda r: histogram_mean(r, DECODE, MS_PER_S), "ms"),
        tokens_per_iteration=_over(runs, lambda r: histogram_mean(r, ITERATION_TOKENS), "tokens"),
        kv_cache_usage_peak=_over(runs, lambda r: _peak(r, KV_CACHE_USAGE), "share"),
        preemptions=_over(runs, lambda r: _increase(r, PREEMPTIONS), "preemptions"),
        prefix_hit_rate=_over(runs, _prefix_hit_rate, "share"),
        power_w=_over(runs, lambda r: _time_mean(r, POWER), "W", POWER),
        energy_per_token_j=_over(runs, _energy_per_token, "J/token", ENERGY),
        sm_clock_mhz=_over(runs, lambda r: _time_mean(r, SM_CLOCK), "MHz", SM_CLOCK),
        device_memory_peak_bytes=_over(runs, lambda r: _peak(r, DEVICE_MEMORY), "bytes", DEVICE_MEMORY),
        engine_rss_peak_bytes=_over(runs, lambda r: _peak(r, ENGINE_RSS), "bytes", ENGINE_RSS),
        engine_cpu_per_token_ms=_over(runs, _cpu_per_token, "ms/token", ENGINE_CPU),
    )


def _over(runs: Sequence[RunEvidence], measure: Measure, unit: str, sampled: str | None = None) -> Estimate:
    values = [value for run in runs if (value := measure(run)) is not None]
    if values:
        return mean_over_blocks(values, unit)
    if not runs:
        return _untold(unit, "no complete block")
    why = next((run.unobservable[sampled] for run in runs if sampled in run.unobservable), "it was not sampled")
    return _untold(unit, NOT_SAMPLED.format(why) if sampled else NOT_SCRAPED)


def _untold(unit: str, why: str) -> Estimate:
    return Estimate(value=None, n=0, unit=unit, source="engine metrics and telemetry, mean of blocks", why=why)


def histogram_mean(run: RunEvidence, histogram: str, scale: float = 1.0) -> float | None:
    """A histogram's mean over the run: difference of its sums over the difference of its counts."""
    total, count = _increase(run, f"{histogram}_sum"), _increase(run, f"{histogram}_count")
    return scale * total / count if total is not None and count else None


def _increase(run: RunEvidence, name: str) -> float | None:
    found = the_one(run.series, name)
    return found.increase() if found else None


def _peak(run: RunEvidence, name: str) -> float | None:
    """The largest sum over the devices at one moment, or the largest value where there is one series."""
    return _largest_sum(having(run.series, name))


def _largest_sum(series: Iterable[Series]) -> float | None:
    found = [s.values for s in series if s.values]
    return max(map(sum, zip(*found, strict=False)), default=None) if found else None


def _time_mean(run: RunEvidence, name: str) -> float | None:
    """Mean of the samples inside the replay, summed over the devices."""
    means = [sum(kept) / len(kept) for s in having(run.series, name) if (kept := _inside(run, s))]
    return sum(means) if means else None


def _inside(run: RunEvidence, series: Series) -> list[float]:
    end_ns = max((o.end_ns or 0 for o in run.observations), default=0)
    return [value for at, value in zip(series.at_ns, series.values, strict=True) if 0 <= at <= end_ns]


def _prefix_hit_rate(run: RunEvidence) -> float | None:
    queries, hits = _increase(run, PREFIX_QUERIES), _increase(run, PREFIX_HITS)
    return hits / queries if queries and hits is not None else None


def _energy_per_token(run: RunEvidence) -> float | None:
    """Joules from before the replay to after it, idling included, over generated tokens."""
    spent, tokens = [s.increase() for s in having(run.series, ENERGY)], _increase(run, GENERATION_TOKENS)
    known = [joules for joules in spent if joules is not None]
    return sum(known) / tokens if known and tokens else None


def _cpu_per_token(run: RunEvidence) -> float | None:
    seconds, tokens = _increase(run, ENGINE_CPU), _increase(run, GENERATION_TOKENS)
    return MS_PER_S * seconds / tokens if seconds is not None and tokens else None
