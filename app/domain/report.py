"""The report: what was asked, run and found, with what it does not show.

A pure function of evidence and ``ANALYSIS_VERSION``; pages, figures, API and bundle state
only numbers that are here.
"""

from pydantic import BaseModel, ConfigDict

from app.domain.manifest import Manifest
from app.domain.vocabulary import Regime, Saturation, VerdictWord

REPORT_FORMAT = "verdraft/report/v0"
ANALYSIS_VERSION = "0.1"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Estimate(_Frozen):
    """A number with its interval, unit, sample size and where it comes from.

    ``low``/``high`` are ``None`` where no interval can be given (one block, no drafts), and
    ``why`` then says so; ``value`` is ``None`` where the quantity is undefined (never 0).
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    n: int
    """Units that carry the uncertainty: blocks for between-arm claims, requests for acceptance."""
    unit: str
    source: str
    """Estimator in words, such as ``t interval of block log-ratios (method A4)``."""
    why: str | None = None


class ArmResult(_Frozen):
    """What one arm did in one condition and stratum, over complete blocks. ``stratum`` is ``all`` or ``task=copy``."""

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


class MetricComparison(_Frozen):
    """One metric of one arm against target-only: a paired block ratio, above 1 is better for the arm."""

    arm: str
    workload: str
    load: str
    stratum: str
    metric: str
    """``request_speedup`` (E2E p50), ``tpot_speedup``, ``ttft_speedup``, ``throughput_ratio``, ``goodput_ratio``."""
    primary: bool
    ratio: Estimate
    simultaneous_low: float | None
    simultaneous_high: float | None
    p_holm: float | None
    block_ratios: tuple[float, ...]
    minimum_detectable_effect: float | None


class Verdict(_Frozen):
    """One line of the answer: arm × workload × load."""

    arm: str
    workload: str
    load: str
    regime: Regime
    word: VerdictWord
    sentence: str
    reasons: tuple[str, ...]
    exploratory: bool
    metric: str
    ratio: Estimate | None
    blocks_needed: int | None


class Mismatch(_Frozen):
    """One request whose greedy tokens differ from target-only's in the same block."""

    block: int
    arm: str
    workload: str
    load: str
    request_id: str
    first_divergence: int
    baseline_tokens: tuple[int, ...]
    arm_tokens: tuple[int, ...]
    baseline_text: str
    arm_text: str
    baseline_finish: str | None
    arm_finish: str | None
    explanation: str | None
    """``baseline also differs from itself`` where the control explains it; ``None`` is unexplained."""


class Correctness(_Frozen):
    """Greedy equality of one arm with target-only, and of target-only with itself across blocks."""

    arm: str
    compared: int
    mismatched: int
    unexplained: int
    match_rate: Estimate
    control_compared: int
    control_mismatched: int
    reference_exact: Estimate
    """Share of requests with a reference whose text equals it: is the model doing the task at all?"""
    baseline_reference_exact: Estimate


class Reconciliation(_Frozen):
    """Per-request sums against counter deltas of one run; ``residual`` must be 0."""

    block: int
    arm: str
    workload: str
    load: str
    quantity: str
    per_request_sum: int
    counter_delta: int
    residual: int


class SessionSummary(_Frozen):
    """How one server started; cold-start numbers stay apart from measured ones."""

    block: int
    arm: str
    position: int
    state: str
    startup_s: float | None
    failure_class: str | None
    failure: str | None
    log_sha256: str | None
    memory: dict[str, str]


class DraftCost(_Frozen):
    """What the arm costs beside time (spec M5, first form)."""

    arm: str
    startup_s: Estimate
    baseline_startup_s: Estimate
    kv_cache_tokens: str | None
    baseline_kv_cache_tokens: str | None


class Recommendation(_Frozen):
    """The overall answer and its scope. ``flags`` are what to pass to ``vllm serve``."""

    arm: str | None
    sentence: str
    scope: str
    flags: tuple[str, ...]


class Report(_Frozen):
    """Everything that a page, a figure or a reviewer may state."""

    format: str = REPORT_FORMAT
    analysis_version: str = ANALYSIS_VERSION
    experiment: str
    """The manifest's digest."""
    name: str
    manifest: Manifest
    interim: bool
    """True while blocks are missing: no decision may be taken from it."""
    exploratory: bool
    """True below five planned blocks: every verdict is marked."""
    blocks_planned: int
    blocks_complete: int
    strata: dict[str, tuple[str, ...]]
    """Workload → its strata, ``all`` first."""
    verdicts: tuple[Verdict, ...]
    recommendation: Recommendation
    results: tuple[ArmResult, ...]
    comparisons: tuple[MetricComparison, ...]
    correctness: tuple[Correctness, ...]
    mismatches: tuple[Mismatch, ...]
    reconciliations: tuple[Reconciliation, ...]
    sessions: tuple[SessionSummary, ...]
    costs: tuple[DraftCost, ...]
    config_differences: dict[str, dict[str, tuple[str | None, str | None]]]
    """Arm → resolved field → (target-only, arm), for fields outside the allowed set; each makes the arm INVALID."""
    not_shown: tuple[str, ...]
    """What this experiment cannot tell, in words."""
