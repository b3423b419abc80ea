"""Each arm against target-only: paired block ratios per metric, above 1 where the arm is better.

A block gives one ratio of two runs' quantiles or totals, never an average of per-request ratios.
The primary comparisons, one per arm that the manifest decides on, workload and load, form the family that
Holm and the simultaneous intervals are taken over; other arms and strata are exploratory.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition, expand
from app.domain.evidence import ExperimentEvidence, RunEvidence
from app.domain.goodput import Good, good_of, goodput_rps
from app.domain.latency import (
    e2e_ns,
    milliseconds,
    output_throughput_tps,
    tpot_ns,
    ttft_ns,
    window_s,
)
from app.domain.manifest import Manifest
from app.domain.paired import block_ratio, bonferroni, holm, minimum_detectable_effect, paired_p
from app.domain.pairing import ALL, CompleteBlocks, Pair, baseline_of, strata_of, within
from app.domain.statistics import Estimate, quantile
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, Saturation

REQUEST_SPEEDUP: Final = "request_speedup"
THROUGHPUT_RATIO: Final = "throughput_ratio"


class MetricComparison(BaseModel):
    """One metric of one arm against target-only: a paired block ratio, above 1 is better for the arm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    load: str
    stratum: str
    metric: str
    """``request_speedup`` (E2E p50), ``tpot_speedup``, ``ttft_speedup``, ``throughput_ratio``, ``goodput_ratio``, …"""
    primary: bool
    ratio: Estimate
    simultaneous_low: float | None
    simultaneous_high: float | None
    p_holm: float | None
    block_ratios: tuple[float, ...]
    ratio_blocks: tuple[int, ...] = ()
    """Which block each of them is of."""
    minimum_detectable_effect: float | None
    """Relative: 0.034 is a change of 3.4% that these blocks would find with 80% power."""

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """What the intervals and tests are computed on."""
        return tuple(map(math.log, self.block_ratios))


class _Part(NamedTuple):
    """One run's share of a stratum, with the run's own window."""

    run: RunEvidence
    members: frozenset[str]
    rule: Good


def request_p50_ms(part: _Part) -> float | None:
    """Median end-to-end time over offered requests; a failed one is infinitely slow."""
    return quantile([milliseconds(e2e_ns(o)) for o in within(part.run, part.members)], 0.5)


def request_mean_ms(part: _Part) -> float | None:
    """Total end-to-end time of the served requests divided by their number: for a ratio of totals."""
    times = [time for o in within(part.run, part.members) if (time := e2e_ns(o)) is not None]
    return sum(times) / len(times) / NS_PER_MS if times else None


def tpot_p50_ms(part: _Part) -> float | None:
    """Median time per output token over requests that have one."""
    found = [time / NS_PER_MS for o in within(part.run, part.members) if (time := tpot_ns(o)) is not None]
    return quantile(found, 0.5)


def ttft_p50_ms(part: _Part) -> float | None:
    """Median time to first token over offered requests."""
    return quantile([milliseconds(ttft_ns(o)) for o in within(part.run, part.members)], 0.5)


def throughput_tps(part: _Part) -> float | None:
    """Output tokens of served requests per second of the run's window."""
    seconds = window_s(part.run.observations)
    return None if seconds is None else output_throughput_tps(within(part.run, part.members), seconds)


def goodput(part: _Part) -> float | None:
    """Good requests per second of the run's window."""
    return goodput_rps((part.run, within(part.run, part.members)), part.rule)


class Metric(NamedTuple):
    """How one run is measured, and which direction is better."""

    measure: Callable[[_Part], float | None]
    less_is_better: bool


METRICS: Final[Mapping[str, Metric]] = {
    REQUEST_SPEEDUP: Metric(request_p50_ms, less_is_better=True),
    "request_total_speedup": Metric(request_mean_ms, less_is_better=True),
    "tpot_speedup": Metric(tpot_p50_ms, less_is_better=True),
    "ttft_speedup": Metric(ttft_p50_ms, less_is_better=True),
    THROUGHPUT_RATIO: Metric(throughput_tps, less_is_better=False),
    "goodput_ratio": Metric(goodput, less_is_better=False),
}


def compare(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, saturation: Mapping[Condition, Saturation]
) -> tuple[MetricComparison, ...]:
    """Every metric of every candidate condition and stratum, with the family's adjustments on the primary ones."""
    rules = {condition: good_of(evidence, condition) for condition in expand(evidence.manifest)}
    found = tuple(
        _comparison(
            evidence.manifest,
            condition,
            dict(_ratios(blocks.pairs(condition), members, metric, rules[condition])),
            stratum=stratum,
            metric=metric,
            primary=stratum == ALL and metric == primary_metric(condition, saturation),
        )
        for condition in expand(evidence.manifest)
        if condition.arm != BASELINE_ARM
        for stratum, members in strata_of(evidence.labels.get(condition.workload, ())).items()
        for metric in METRICS
    )
    return _with_family(found, evidence.manifest)


def primary_metric(condition: Condition, saturation: Mapping[Condition, Saturation]) -> str:
    """Median request time; total throughput where either arm is saturated, since a growing queue has no latency.

    The rule is fixed before any evidence and looks at the backlog only, not at which arm is faster.
    """
    both = {saturation[condition], saturation[baseline_of(condition)]}
    return THROUGHPUT_RATIO if Saturation.SATURATED in both else REQUEST_SPEEDUP


def _comparison(
    manifest: Manifest,
    condition: Condition,
    ratios: Mapping[int, float],
    *,
    stratum: str,
    metric: str,
    primary: bool,
) -> MetricComparison:
    logs = tuple(map(math.log, ratios.values()))
    confidence = manifest.margins.confidence
    return MetricComparison(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        stratum=stratum,
        metric=metric,
        primary=primary,
        ratio=block_ratio(logs, confidence),
        simultaneous_low=None,
        simultaneous_high=None,
        p_holm=None,
        block_ratios=tuple(ratios.values()),
        ratio_blocks=tuple(ratios),
        minimum_detectable_effect=minimum_detectable_effect(logs, confidence),
    )


def _ratios(pairs: Sequence[Pair], members: frozenset[str], metric: str, rule: Good) -> Iterator[tuple[int, float]]:
    """Block and its one ratio; a block in which either side is 0, infinite or undefined has none."""
    measure, less_is_better = METRICS[metric]
    for pair in pairs:
        target, arm = (measure(_Part(run, members, rule)) for run in (pair.target, pair.arm))
        if target and arm and math.isfinite(target) and math.isfinite(arm):
            yield pair.block, target / arm if less_is_better else arm / target


def by_block(comparison: MetricComparison, blocks: CompleteBlocks) -> dict[int, float]:
    """Block → log-ratio, for comparing arms with each other; empty where a block had none: which is not told."""
    condition = Condition(comparison.arm, comparison.workload, comparison.load)
    places, found = [pair.block for pair in blocks.pairs(condition)], comparison.log_ratios
    return dict(zip(places, found, strict=True)) if len(places) == len(found) else {}


def family_size(manifest: Manifest) -> int:
    """The declared family: one primary comparison per arm that is decided on, workload and load."""
    return len(manifest.decided) * len(manifest.workloads) * len(manifest.loads)


def _with_family(found: Sequence[MetricComparison], manifest: Manifest) -> tuple[MetricComparison, ...]:
    decided = {arm.name for arm in manifest.decided}
    primary = [c for c in found if c.primary and c.arm in decided]
    adjusted = dict(zip(map(id, primary), holm([paired_p(c.log_ratios) for c in primary]), strict=True))
    confidence = bonferroni(manifest.margins.confidence, family_size(manifest))
    return tuple(_adjusted(c, adjusted[id(c)], confidence) if id(c) in adjusted else c for c in found)


def _adjusted(comparison: MetricComparison, p_holm: float | None, confidence: float) -> MetricComparison:
    wide = block_ratio(comparison.log_ratios, confidence)
    return comparison.model_copy(
        update={"p_holm": p_holm, "simultaneous_low": wide.low, "simultaneous_high": wide.high}
    )
