"""The documents of the API. Generated from the OpenAPI document by ``clients/python/generate.py``; do not edit."""

# ruff: noqa
from __future__ import annotations
from datetime import datetime
from typing import Any, Literal
from uuid import UUID
from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """What a newer service adds is kept aside."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, protected_namespaces=())


AcceleratorState = Literal["FREE", "LEASED", "QUARANTINED"]
Answer = Literal["same", "differs"]
Archived = Literal["hidden", "shown", "only"]
ArrivalKind = Literal["constant", "poisson", "gamma", "ramp"]
ConfigSource = Literal["server_info", "log"]
ControlOutcome = Literal["pass", "warn", "fail", "not checkable"]
Degeneration = Literal["looping", "empty", "cut off", "other script"]
DeliveryState = Literal["PENDING", "DELIVERED", "FAILED"]
DraftSampling = Literal["greedy", "probabilistic"]
Event = Literal["experiment.finished", "experiment.failed", "experiment.canceled", "ping"]
ExperimentState = Literal["QUEUED", "RUNNING", "FINISHED", "FAILED", "CANCELED"]
FailureClass = Literal[
    "CONFIG", "OOM", "ENGINE_DEAD", "HANG", "INFRA", "GENERATOR_LIMITED", "CANCELED", "LOOK", "NOT_NEEDED"
]
FailureLevel = Literal["block", "session", "run"]
GreedyMode = Literal["timed", "concurrent", "single"]
ItemState = Literal["met", "not met", "not applicable"]
JsonValue = Any
Label = Literal["lossless", "lossy", "unknown"]
MemoryPart = Literal[
    "target weights",
    "draft weights",
    "target and draft weights together",
    "KV cache, target",
    "KV cache, draft",
    "KV cache, target and draft together",
    "activations at peak",
    "graphs and workspaces",
    "allocator and driver reserve",
    "not explained",
    "measured headroom at peak",
]
Method = Literal[
    "target_only",
    "ngram",
    "ngram_gpu",
    "suffix",
    "draft_model",
    "eagle",
    "eagle3",
    "mtp",
    "dflash",
    "dspark",
    "medusa",
    "mlp_speculator",
    "extract_hidden_states",
    "custom_class",
]
Metric = Literal[
    "request_speedup", "request_total_speedup", "tpot_speedup", "ttft_speedup", "throughput_ratio", "goodput_ratio"
]
MismatchClass = Literal["NONDETERMINISM", "BATCH_EFFECT", "NEAR_TIE", "NOT_DIAGNOSED", "SPEC_DEFECT"]
Order = Literal["newest", "oldest", "name", "ended"]
Outcome = Literal[
    "success",
    "http_error",
    "stream_error",
    "truncated",
    "deadline_miss",
    "stall",
    "client_cancel",
    "connect_refused",
    "not_sent",
]
Overlap = Literal["token_f1", "rouge_l"]
PreflightOutcome = Literal["pass", "fail", "not checkable", "refused by policy"]
Purpose = Literal["verdict", "overhead_profiling", "host_calibration"]
QualityWord = Literal["EQUIVALENT", "WORSE", "BETTER", "INCONCLUSIVE"]
RateKind = Literal["open_loop", "closed_loop"]
Regime = Literal["latency", "serving"]
RejectionSampling = Literal["standard", "block", "synthetic", "fly"]
RunState = Literal["MEASURING", "SUCCEEDED", "FAILED", "CANCELED", "LOST"]
SamplingTestName = Literal[
    "first token",
    "first token, exact",
    "token pair",
    "length",
    "finish reason",
    "likelihood",
    "likelihood, exact",
    "top choice",
    "top choice, exact",
]
SamplingWord = Literal["pass", "fail", "not checkable"]
Saturation = Literal["STABLE", "SUSPECT", "SATURATED", "UNDECIDED"]
Scope = Literal["read", "submit", "admin"]
Scored = Literal["correct", "wrong", "unscored"]
ScorerName = Literal["exact", "normalised", "numeric", "overlap", "regex", "json_schema", "unit_tests"]
SessionState = Literal[
    "STARTING", "WARMING", "MEASURING", "VERIFYING", "DRAINING", "SUCCEEDED", "FAILED", "CANCELED", "LOST"
]
Sort = Literal[
    "-e2e",
    "e2e",
    "-ttft",
    "ttft",
    "-tpot",
    "tpot",
    "-late",
    "late",
    "-ratio",
    "ratio",
    "-acceptance",
    "acceptance",
    "-tokens",
    "tokens",
    "-prompt",
    "prompt",
    "request",
    "-request",
]
Tool = Literal["vllm bench serve", "guidellm", "aiperf"]
VerdictWord = Literal["HELPS", "HURTS", "EQUIVALENT", "INCONCLUSIVE", "INVALID"]
WarningEffect = Literal["fails preflight", "notice"]
Which = Literal["counted", "left-out", "any"]
app__domain__rests_on__Standing = Literal["CURRENT", "EXPIRED", "UNKNOWN"]
app__domain__weighing__Standing = Literal[
    "first choice",
    "as fast, and heavier",
    "slower than the first choice",
    "not comparable with the first choice block by block",
    "helps at fewer conditions",
    "helps here, hurts there",
    "hurts and helps nowhere",
    "not right against target-only as it would be deployed",
    "not shown to help",
    "invalid",
    "target-only as it would be deployed",
    "outside the declared family",
]


class Absent(Model):
    """What a reader may look for and not find, and why."""

    name: str
    why: str


class AcceleratorRead(Model):
    """One place for an engine."""

    host: str
    name: str
    kind: str
    state: AcceleratorState
    reason: str | None
    since: datetime
    in_state_s: float
    seen_at: datetime
    silent_s: float
    stale: bool
    experiment_id: str | None
    block: int | None


class AccountRead(Model):
    """Someone who may log in with a browser."""

    name: str
    project: str
    scope: Scope
    created_at: datetime
    disabled: bool


class AccountWish(Model):
    """An account to be made, or to be given a new password, project or scope."""

    name: str
    password: str
    project: str = Field(default="default")
    scope: Scope = Field(default="read")


class Across(Model):
    """Experiments side by side. Nothing is computed between them: no ratio across columns was controlled."""

    experiments: list[Column]
    pins: list[PinRow]
    warnings: list[str]
    conditions: list[ConditionRow]


class AgainstDeployed(Model):
    """One candidate's speed over one target-only as deployed, on one workload at one load."""

    deployed: str
    workload: str
    load: str
    regime: Regime
    word: VerdictWord
    metric: str
    ratio: Estimate | None


class AlongOutput(Model):
    """By range; ``placed`` of the ``drafting`` requests could be placed without a doubt."""

    ranges: list[OutputRange] = Field(default_factory=lambda: [])
    placed: int = Field(default=0)
    drafting: int = Field(default=0)


class Alternative(Model):
    """A token that the target could have chosen at one place."""

    token_id: int
    logit: float


class AnsweredAgain(Model):
    """One answer of a fresh server to a mismatched request."""

    block: int
    arm: str
    mode: str
    repeat: int
    is_baselines: bool
    is_arms: bool
    first_divergence: int
    tokens: int
    finish: str | None


class Arm(Model):
    """One server configuration under comparison; arms differ in nothing but what is here."""

    name: str
    draft_or_speculator: str = Field(default="none")
    speculation: Speculation
    provenance: Provenance | None = Field(default=None)
    as_deployed: Literal[True] | None = Field(default=None)


class ArmMemory(Model):
    """``spread_bytes`` is the largest total less the smallest over the arm's servers; ``None`` for one server."""

    arm: str
    block: int
    breakdown: MemoryBreakdown
    servers: int
    spread_bytes: int | None
    kv_cache_tokens_lost: int | None


class ArmResult(Model):
    """What one arm did in one condition and stratum, over complete blocks. ``stratum`` is ``all`` or ``task=copy``."""

    arm: str
    workload: str
    load: str
    stratum: str
    offered: int
    success: int
    outcomes: dict[str, int]
    ttft_ms: dict[str, Estimate]
    tpot_ms: dict[str, Estimate]
    itl_chunk_ms: dict[str, Estimate]
    itl_token_ms: dict[str, Estimate]
    queue_ms: dict[str, Estimate]
    e2e_ms: dict[str, Estimate]
    lateness_ms: dict[str, Estimate]
    distributions: dict[str, Distribution] = Field(default_factory=lambda: {})
    output_throughput_tps: Estimate
    request_throughput_rps: Estimate
    goodput_rps: Estimate
    slo_attainment: Estimate
    acceptance_rate: Estimate
    mean_length_excl: Estimate
    mean_length_incl: Estimate
    mean_length_emit: Estimate
    acceptance_by_position: list[float]
    conditional_acceptance_by_position: list[float | None]
    acceptance_band: list[Estimate] = Field(default_factory=lambda: [])
    conditional_acceptance_band: list[Estimate] = Field(default_factory=lambda: [])
    acceptance_along_output: AlongOutput
    tokens: TokenCounts
    saturation: Saturation


class ArmWord(Model):
    """How often an arm got a verdict, over the workloads and loads."""

    arm: str
    word: VerdictWord
    count: int


class ArrivalNote(Model):
    """What a trace says of how a load point's offsets came to be. A label: what counts are the offsets themselves."""

    kind: ArrivalKind | Literal["recorded", "scaled", "thinned"]
    seed: int | None = Field(default=None)
    burstiness: float | None = Field(default=None)
    end_rate_rps: float | None = Field(default=None)
    speed: float | None = Field(default=None)
    shared: str | None = Field(default=None)


class Attention(Model):
    """Something that will not get better by itself, and what to do about it."""

    what: str
    remedy: str
    page: str | None = Field(default=None)


class Attrition(Model):
    """The interval of ``request_speedup`` at one condition, widened to whatever the failed requests could have been."""

    arm: str
    workload: str
    load: str
    failed_target: int
    failed_arm: int
    low: float | None
    high: float | None


class AuditPage(Model):
    """What was done, newest first; ``next_cursor`` is null on the last page."""

    items: list[AuditRead]
    next_cursor: int | None


class AuditRead(Model):
    """One thing that was done."""

    id: int
    at: datetime
    actor: str
    project: str
    action: str
    target: str
    detail: dict[str, JsonValue]


class Burden(Model):
    """One arm's costs; ``None`` where no server told."""

    kv_cache_tokens: int | None
    kv_cache_tokens_target: int | None
    full_length_requests_lost: float | None
    startup_more_s: Estimate
    storage_bytes: int | None
    storage_source: str
    complexity: list[str]
    notices: list[Notice] = Field(default_factory=lambda: [])


class CanaryFacts(Model):
    """The engine's speculative counters right after the canary; ``None`` where it exposes none."""

    exposes_speculation: bool
    drafted: int | None = Field(default=None)
    accepted: int | None = Field(default=None)


class CapabilityRead(Model):
    """What one worker can run."""

    worker: str
    document: dict[str, JsonValue]
    seen_at: datetime


class CasePage(Model):
    """Cases of complete blocks. ``next_cursor`` is null on the last page."""

    items: list[CaseRead]
    next_cursor: str | None
    total: int
    total_is_bound: bool
    blocks: int
    blocks_complete: int


class CaseRead(Model):
    """One request under one arm in one block. Latencies count from the due time; ``null`` where there is none."""

    run_id: UUID
    block: int
    arm: str
    workload: str
    load: str
    attempt: int
    counted: bool
    request_id: str
    strata: list[str]
    outcome: Outcome
    lateness_ns: int | None
    ttft_ns: int | None
    tpot_ns: float | None
    e2e_ns: int | None
    prompt_tokens: int | None
    output_tokens: int
    acceptance: float | None
    ratio: float | None
    differs: bool | None
    score: float | None
    correct: bool | None
    text: str


class Cell(Model):
    """What one experiment says of a condition, from its own paired blocks."""

    word: VerdictWord
    ratio: Estimate | None
    simultaneous_low: float | None
    simultaneous_high: float | None
    metric: str
    exploratory: bool
    baseline_e2e_p50_ms: float | None
    unlike: list[str]


class ChecklistItem(Model):
    """One item: met where each of its checks is met or not applicable."""

    name: str
    title: str
    state: ItemState
    checks: list[app__domain__reproducibility_terms__Check]


class Column(Model):
    """One experiment."""

    id: str
    name: str
    state: ExperimentState
    blocks_complete: int
    blocks_planned: int
    interim: bool


class ConditionRow(Model):
    """One arm on one workload at one load, by name; a cell is `null` where an experiment has no such condition."""

    arm: str
    workload: str
    load: str
    cells: list[Cell | None]


class Control(Model):
    """A finding in its place. ``words`` say what is wrong, or why it cannot be told; empty where nothing is."""

    name: str
    block: int | None
    arm: str | None
    workload: str | None
    load: str | None
    outcome: ControlOutcome
    figure: float | None
    threshold: float | None
    unit: str
    words: str


class ControlSummary(Model):
    """One control over all compared runs: how often each outcome, and the figure farthest on the wrong side."""

    name: str
    outcomes: dict[str, int]
    worst: Control


class CorrectAnswers(Model):
    """One arm on one workload in one stratum, over all loads. Words are of ``all`` only; strata are exploratory."""

    arm: str
    workload: str
    stratum: str
    scorer: str | None
    scored: int
    right: int
    correct: Estimate
    difference: Estimate | None
    margin: float
    equivalence_low: float | None
    equivalence_high: float | None
    word: QualityWord | None
    flaw: str | None


class Correctness(Model):
    """Greedy equality of one arm with target-only, and what its differences mean; prompts count once."""

    arm: str
    compared: int
    mismatched: int
    rates: list[MatchRate]
    classes: dict[str, int]
    diagnosed: int
    left_out: int
    defect_share: Estimate
    processes: int
    unanswered: int
    broken: list[str]
    sentence: str
    reference_exact: Estimate
    baseline_reference_exact: Estimate


class CostEstimate(Model):
    """An estimate, never a promise. Effects are relative: 0.034 is a change of 3.4%."""

    conditions: int
    sessions: int
    runs: int
    requests: int
    startup_s: float
    replay_s: float
    overhead_s: float
    wall_minutes: float
    accelerators: int
    accelerator_minutes: float
    times_from: str
    delta: float
    sd: float
    sd_from: str
    minimum_detectable_effect: float | None
    minimum_detectable_effect_in_family: float | None
    blocks_for_delta: int | None
    notes: list[str] = Field(default_factory=lambda: [])


class CounterDeltas(Model):
    """Differences of vLLM's counters over one run, between two quiesced scrapes, summed over ``engine``. ``None`` where the runtime does not expose the metric (the baseline has no speculative counters)."""

    prompt_tokens: int
    generation_tokens: int
    request_success: int
    num_preemptions: int
    spec_decode_num_drafts: int | None = Field(default=None)
    spec_decode_num_draft_tokens: int | None = Field(default=None)
    spec_decode_num_accepted_tokens: int | None = Field(default=None)
    spec_decode_num_accepted_tokens_per_pos: list[int] | None = Field(default=None)


class CounterfactualK(Model):
    """One shorter draft of one arm on one workload and load."""

    arm: str
    workload: str
    load: str
    k: int
    tokens_per_step_low: float
    tokens_per_step_high: float
    step_cost: float | None
    decode_speedup_low: float | None
    decode_speedup_high: float | None
    checked_by: str | None
    measured_tokens_per_step: float | None


class Crossover(Model):
    """The load at which an arm stops helping and begins to hurt lies between two tested loads."""

    arm: str
    workload: str
    kind: RateKind
    helps_to: str | None
    hurts_from: str | None
    between: list[str]
    sentence: str


class CurrentRead(Model):
    """What is being measured now; ``workload`` and ``load`` are null between runs."""

    block: int
    arm: str
    workload: str | None
    load: str | None
    session_state: SessionState


class DegenerateAnswers(Model):
    """One arm on one workload over all loads, prompt by prompt beside target-only."""

    arm: str
    workload: str
    prompts: int
    kinds: list[KindCount]
    arm_only: int
    target_only: int
    excess: Estimate
    p_mcnemar: float | None
    margin: float
    is_worse: bool
    looping: int
    answers: int
    length_excl: Estimate
    length_excl_looping: Estimate
    length_excl_others: Estimate
    loops_carry_it: bool


class DeletedRead(Model):
    """An experiment that is gone."""

    id: str
    artifacts_removed: int
    bytes_freed: int
    left_for_sweep: bool


class DeliveryRead(Model):
    """One message and what became of it."""

    id: UUID
    event: Event
    experiment: str | None
    state: DeliveryState
    attempts: int
    due_at: datetime | None
    last_status: int | None
    last_error: str | None
    created_at: datetime
    finished_at: datetime | None


class Device(Model):
    """One GPU at the start of a session. ``None`` where this driver or chip does not tell."""

    uuid: str
    model: str
    driver: str
    cuda: str | None = Field(default=None)
    memory_bytes: int
    pci_bus_id: str | None = Field(default=None)
    ecc: bool | None = Field(default=None)
    mig: bool | None = Field(default=None)
    persistence: bool | None = Field(default=None)
    power_limit_w: float | None = Field(default=None)
    sm_clock_max_mhz: int | None = Field(default=None)
    memory_clock_max_mhz: int | None = Field(default=None)
    links: dict[str, str] = Field(default_factory=lambda: {})


class Distribution(Model):
    """An empirical distribution function. ``low`` and ``high`` are ``None`` below two blocks."""

    ms: list[float]
    share: list[float]
    low: list[float | None]
    high: list[float | None]
    confidence: float | None
    offered: int
    counted: int
    timed: int
    blocks: int
    source: str = Field(default="mean of blocks' shares, t interval at each time alone")


class DraftCost(Model):
    """What the arm costs beside time (spec M5, first form)."""

    arm: str
    startup_s: Estimate
    baseline_startup_s: Estimate
    kv_cache_tokens: str | None
    baseline_kv_cache_tokens: str | None


class Estimate(Model):
    """A number with its interval, unit, sample size and where it comes from. ``low``/``high`` are ``None`` where no interval can be given (one block, no drafts), and ``why`` then says so; ``value`` is ``None`` where the quantity is undefined (never 0)."""

    value: float | None
    low: float | None = Field(default=None)
    high: float | None = Field(default=None)
    confidence: float | None = Field(default=None)
    n: int
    unit: str
    source: str
    why: str | None = Field(default=None)


class ExperimentPage(Model):
    """A page of experiments. A cursor is null where nothing follows, or precedes."""

    items: list[ExperimentRead]
    next_cursor: str | None
    previous_cursor: str | None
    total: int
    unweighed: int


class ExperimentRead(Model):
    """An experiment and how far it has come."""

    id: str
    name: str
    state: ExperimentState
    version: int
    created_at: datetime
    finished_at: datetime | None
    owner: str
    priority: int
    tags: list[str]
    archived: bool
    verdicts: list[ArmWord] | None
    cancel_requested: bool
    waits_because: str | None
    blocks_planned: int
    blocks_complete: int
    sessions_planned: int
    sessions_done: int
    runs_planned: int
    runs_done: int
    current: CurrentRead | None
    seconds_left: float | None
    seconds_left_low: float | None
    seconds_left_high: float | None
    failures: list[FailureRead]
    links: Links


class Expiry(Model):
    """A verdict held against what is there. It is of the moment, and no part of the evidence."""

    standing: app__domain__rests_on__Standing
    against: str
    changes: list[PinChange] = Field(default_factory=lambda: [])
    sentence: str


class Explanation(Model):
    """One candidate's condition beside target-only's."""

    arm: str
    workload: str
    load: str
    saved_ms: Estimate
    parts: list[SavedTime]
    tokens_per_step: Estimate
    step_cost: Estimate
    draft_cost: float | None
    alpha: float | None
    foretold_if_independent: float | None
    foretold_decode: Estimate
    foretold_request: Estimate
    measured_request: Estimate
    words: str


class FailedRead(Model):
    """One failure."""

    at: datetime
    level: FailureLevel
    failure_class: FailureClass
    message: str
    experiment_id: str
    experiment_name: str
    block: int
    arm: str | None = Field(default=None)
    workload: str | None = Field(default=None)
    load: str | None = Field(default=None)
    page: str


class Failure(Model):
    """Why a session or run ended early; ``message`` is one line, the log has the rest."""

    failure_class: FailureClass
    message: str


class FailureCount(Model):
    """Failures of one class at one level."""

    level: FailureLevel
    failure_class: FailureClass
    last_day: int
    in_all: int


class FailureRead(Model):
    """One failure that is part of the evidence; ``where`` is ``block 0/arm/workload/load`` as far as it goes."""

    where: str
    failure_class: FailureClass
    message: str


class Family(Model):
    """The arms that are decided on together (method A8); an arm outside the family is shown as exploratory."""

    comparisons: Literal["all"] | list[str] = Field(default="all")
    correction: Literal["holm"] = Field(default="holm")


class FigureRead(Model):
    """A figure that the report can draw."""

    name: str
    url: str


class Files(Model):
    """Hashes of the target's own files that shape prompts and sampling; ``none`` where there is no such file."""

    tokenizer: str
    chat_template: str
    generation_config: str


class Generator(Model):
    """What made a synthetic trace: the same version, seed and dials make the same bytes."""

    name: str
    version: str
    seed: int
    dials: dict[str, JsonValue] = Field(default_factory=lambda: {})


class Hardware(Model):
    """What the accelerator is; a worker refuses a manifest that names another."""

    accelerator: str
    count: int
    topology: str


class Headroom(Model):
    """What choosing an arm for each request would give over target-only, chosen on the other blocks."""

    workload: str
    load: str
    best_arm: Estimate
    per_request: Estimate


class HostRead(Model):
    """One host whose worker has published what it can run."""

    host: str
    seen_at: datetime
    silent_s: float
    stale: bool
    idle_because: str | None


class ImportRead(Model):
    """A stored result of another tool."""

    digest: str
    experiment_id: str | None
    created_at: datetime
    result: ImportedResult


class ImportedAcceptance(Model):
    """What was drafted and accepted, as far as the file tells; the rate is a share of drafted tokens."""

    unit: str
    definition: str
    field: str
    status: Literal["not controlled by Verdraft"] = Field(default="not controlled by Verdraft")
    rate: float | None = Field(default=None)
    mean_length_incl: float | None = Field(default=None)
    drafts: int | None = Field(default=None)
    drafted: int | None = Field(default=None)
    accepted: int | None = Field(default=None)
    by_position: list[float] = Field(default_factory=lambda: [])


class ImportedPart(Model):
    """One benchmark of the file: one offered load."""

    name: str
    load: str
    request_rate_rps: float | None = Field(default=None)
    concurrency: int | None = Field(default=None)
    time: ImportedTime | None = Field(default=None)
    values: dict[str, ImportedValue]
    summaries: dict[str, ImportedSummary]
    acceptance: ImportedAcceptance | None = Field(default=None)
    absent: list[Absent] = Field(default_factory=lambda: [])


class ImportedResult(Model):
    """One file of another tool."""

    format: Literal["verdraft/imported-result/v0"] = Field(default="verdraft/imported-result/v0")
    status: Literal["not controlled by Verdraft"] = Field(default="not controlled by Verdraft")
    tool: Tool
    tool_version: str | None
    schema_version: str | None
    label: str
    model: str | None
    source_sha256: str
    source_bytes: int
    ignored_fields: int
    parts: list[ImportedPart]


class ImportedSummary(Model):
    """Statistics of one quantity by the tool's names for them, such as ``mean`` and ``p99``."""

    unit: str
    definition: str
    field: str
    status: Literal["not controlled by Verdraft"] = Field(default="not controlled by Verdraft")
    statistics: dict[str, float]
    samples: int | None = Field(default=None)
    nearest: str | None = Field(default=None)


class ImportedTime(Model):
    """A time as the file has it, in ISO 8601."""

    iso: str
    meaning: str


class ImportedValue(Model):
    """One number."""

    unit: str
    definition: str
    field: str
    status: Literal["not controlled by Verdraft"] = Field(default="not controlled by Verdraft")
    value: float


class KAtLoad(Model):
    """What one load says; ``k`` is ``None`` where its words do not decide."""

    load: str
    offered: str
    batch_low: int | None
    batch_high: int | None
    k: int | None
    why: str


class KBracket(Model):
    """Above ``above`` and below ``below`` no batch was seen at which k was decided."""

    above: int
    below: int
    k_below: int
    k_above: int


class KSchedule(Model):
    """One proposer on one workload. ``ranges`` are empty where no schedule can be given; the sentence says why."""

    arms: list[str]
    workload: str
    at: list[KAtLoad]
    ranges: list[tuple[int, int, int]]
    brackets: list[KBracket]
    speculation: str
    sentence: str


class KindCount(Model):
    """Prompts with one kind of degenerate answer, in most of the blocks that both arms answered."""

    kind: Degeneration
    arm: int
    target: int


class Knee(Model):
    """An arm's capacity on one workload lies between two tested loads; ``None``: beyond the tested ones."""

    arm: str
    workload: str
    kind: RateKind
    last_stable: str | None
    first_saturated: str | None
    sentence: str


class LeaseRead(Model):
    """One block under way."""

    experiment_id: str
    experiment_name: str
    block: int
    owner: str
    worker: str
    accelerator: str
    accelerators: list[str]
    attempt: int
    attempts_max: int
    running_s: float
    expires_in_s: float
    cancel_requested: bool


class Links(Model):
    """Where to go from here."""

    self: str
    report: str
    page: str


class LoadPoint(Model):
    """An offered load; the arrival offsets themselves are frozen in each trace."""

    name: str
    kind: RateKind = Field(default="open_loop")
    regime: Regime
    rate_rps: float | None = Field(default=None)
    clients: int | None = Field(default=None)


class LookTaken(Model):
    """One look: how much of the error it may spend, what it found, and whether it ends the experiment."""

    blocks: int
    of: int
    confidence: float
    words: dict[str, int]
    stops: bool
    sentence: str


class Losslessness(Model):
    """One arm's label and what it rests on."""

    arm: str
    label: Label
    reasons: list[str]


class Manifest(Model):
    """Everything that decides what is measured. See ``docs/manifest.md``."""

    format: Literal["verdraft/manifest/v0"] = Field(default="verdraft/manifest/v0")
    name: str
    purpose: Purpose = Field(default="verdict")
    target_model: str
    target_tokenizer: str
    files: Files | None = Field(default=None)
    runtime: str
    engine_below_floor: str | None = Field(default=None)
    serving: Serving
    sampling: Sampling
    hardware: Hardware
    software: Software
    arms: list[Arm]
    workloads: list[WorkloadRef]
    loads: list[LoadPoint]
    blocks: int
    looks: list[int] | None = Field(default=None)
    schedule_seed: int
    session_policy: Literal["per_arm"] = Field(default="per_arm")
    slo: Slo
    margins: Margins = Field(default_factory=lambda: Margins.model_validate({"delta": 0.05, "confidence": 0.95}))
    family: Family = Field(default_factory=lambda: Family.model_validate({"comparisons": "all", "correction": "holm"}))


class Margins(Model):
    """``delta``: the smallest relative effect worth acting on (method A9)."""

    delta: float = Field(default=0.05)
    confidence: float = Field(default=0.95)


class MatchRate(Model):
    """Agreement of an arm with target-only in one mode, and of target-only with itself in a second process."""

    mode: GreedyMode
    prompts: int
    differing: int
    match_rate: Estimate
    control_prompts: int
    control_differing: int
    excess: Estimate
    processes: int


class Mechanism(Model):
    """One condition; every estimate is a mean of blocks with its t interval."""

    arm: str
    workload: str
    load: str
    step_ms: Estimate
    target_step_ms: Estimate
    draft_step_ms: Estimate
    prefill_ms: Estimate
    decode_ms: Estimate
    tokens_per_iteration: Estimate
    kv_cache_usage_peak: Estimate
    preemptions: Estimate
    prefix_hit_rate: Estimate
    power_w: Estimate
    energy_per_token_j: Estimate
    sm_clock_mhz: Estimate
    device_memory_peak_bytes: Estimate
    engine_rss_peak_bytes: Estimate
    engine_cpu_per_token_ms: Estimate


class MemoryBreakdown(Model):
    """One server's memory; ``total_bytes`` is what its device (or its processes, on a CPU) had in use at peak."""

    rows: list[MemoryRow]
    total_bytes: int | None
    total_source: str
    capacity_bytes: int | None
    kv_cache_tokens: int | None
    max_concurrency: float | None
    draft_file_bytes: int | None = Field(default=None)
    checks: list[MemoryCheck] = Field(default_factory=lambda: [])
    caveats: list[str] = Field(default_factory=lambda: [])


class MemoryCheck(Model):
    """The same quantity from two sources."""

    quantity: str
    size_bytes: int
    source: str
    other_bytes: int
    other_source: str


class MemoryRow(Model):
    """``size_bytes`` is ``None`` where no source tells; ``source`` then says why not."""

    part: MemoryPart
    size_bytes: int | None
    source: str
    at_most: bool = Field(default=False)


class MetricComparison(Model):
    """One metric of one arm against target-only: a paired block ratio, above 1 is better for the arm."""

    arm: str
    workload: str
    load: str
    stratum: str
    metric: str
    primary: bool
    ratio: Estimate
    simultaneous_low: float | None
    simultaneous_high: float | None
    p_holm: float | None
    block_ratios: list[float]
    ratio_blocks: list[int] = Field(default_factory=lambda: [])
    minimum_detectable_effect: float | None


class Mismatch(Model):
    """One request whose greedy answer differs from target-only's in the same block."""

    block: int
    arm: str
    mode: GreedyMode
    workload: str
    load: str | None
    request_id: str
    first_divergence: int
    baseline_tokens: list[int]
    arm_tokens: list[int]
    baseline_text: str
    arm_text: str
    baseline_finish: str | None
    arm_finish: str | None
    mismatch_class: MismatchClass
    words: str
    place: int | None = Field(default=None)
    expected_token: int | None = Field(default=None)
    arm_token: int | None = Field(default=None)
    gap_nats: float | None = Field(default=None)
    gap_is_bound: bool = Field(default=False)
    tolerance_nats: float | None = Field(default=None)
    raw_logits: bool = Field(default=False)
    alternatives: list[Alternative] = Field(default_factory=lambda: [])
    token_texts: dict[str, str] = Field(default_factory=lambda: {})
    reruns: list[AnsweredAgain] = Field(default_factory=lambda: [])


class Notice(Model):
    """Something that only the arm's servers logged, and how we read it: those are two voices."""

    logged: str
    means: str


class ObservationPage(Model):
    """Observations by request id. ``next_cursor`` is null on the last page."""

    items: list[RequestObservation]
    next_cursor: str | None


class OperationsRead(Model):
    """Everything an operator asks first."""

    at: datetime
    attention: list[Attention] = Field(default_factory=lambda: [])
    queues: list[QueueRead]
    leases: list[LeaseRead]
    accelerators: list[AcceleratorRead]
    hosts: list[HostRead]
    failures: list[FailureCount]
    newest_failures: list[FailedRead]
    retries: Retries
    owners: list[OwnerRead]
    experiments: dict[str, int]
    database_bytes: int


class OutputRange(Model):
    """Steps that began with ``first`` to ``last`` output tokens there already (``last`` is ``None``: no end)."""

    first: int
    last: int | None
    drafted: int
    accepted: int
    rate: Estimate


class OwnerRead(Model):
    """What one owner has used; who has used least goes first among equal priorities."""

    owner: str
    accelerator_s: float
    queued: int
    leased: int


class Pin(Model):
    """One thing that must stay as it was."""

    what: str
    value: str
    expires: str


class PinChange(Model):
    """A pin that is no longer what it was."""

    what: str
    was: str
    now: str


class PinRow(Model):
    """One thing that each experiment pins; `null` where it does not state it."""

    what: str
    values: list[str | None]
    differs: bool


class PlaceWord(Model):
    """The word of one stratum at one load; only the words of ``all`` are decided, strata are exploratory."""

    workload: str
    stratum: str
    load: str
    regime: Regime
    word: VerdictWord
    blocks_needed: int | None = Field(default=None)


class PreflightRead(Model):
    """Every check that applies, and what the experiment would cost."""

    digest: str
    refused: bool
    host: str | None
    checks: list[app__domain__preflight__outcome__Check]
    estimate: CostEstimate


class Problem(Model):
    """RFC 9457 problem details."""

    type: str = Field(default="about:blank")
    title: str
    status: int
    detail: str
    instance: str
    problems: list[ProblemItem]


class ProblemItem(Model):
    """One wrong field and what to do about it."""

    field: str
    message: str
    remedy: str


class ProjectRead(Model):
    """Whom experiments, traces and imported results belong to."""

    name: str
    created_at: datetime


class ProjectWish(Model):
    """A project to be made."""

    name: str


class Provenance(Model):
    """Where a draft comes from and what it cost (spec M5), as far as it is known."""

    training_data: str | None = Field(default=None)
    target_revision: str | None = Field(default=None)
    training_cost: str | None = Field(default=None)
    licence: str | None = Field(default=None)


class Quality(Model):
    """Declared for a workload before it is measured. See ``docs/quality.md``."""

    scorer: ScorerName
    correct_from: float = Field(default=1.0)
    margin: float = Field(default=0.02)
    samples: int | None = Field(default=None)
    pattern: str | None = Field(default=None)
    json_schema: str | None = Field(default=None)
    absolute_tolerance: float | None = Field(default=None)
    relative_tolerance: float | None = Field(default=None)
    measure: Overlap | None = Field(default=None)
    timeout_s: float | None = Field(default=None)


class QueueRead(Model):
    """The blocks that wait for, or have, accelerators of one kind."""

    accelerator: str
    queued: int
    delayed: int
    oldest_wait_s: float | None
    leased: int


class Reason(Model):
    """Why an accelerator is taken out of use, or put back."""

    reason: str


class Recommendation(Model):
    """The overall answer and its scope. ``flags`` are what to pass to ``vllm serve``."""

    arm: str | None
    sentence: str
    scope: str
    flags: list[str]
    candidate: str | None = Field(default=None)
    command: str = Field(default="")
    before: list[str] = Field(default_factory=lambda: [])
    weighed: list[Weighed] = Field(default_factory=lambda: [])
    by_regime: list[RegimeAnswer] = Field(default_factory=lambda: [])


class Reconciliation(Model):
    """Per-request sums against counter deltas of one run; ``residual`` must be 0."""

    block: int
    arm: str
    workload: str
    load: str
    quantity: str
    per_request_sum: int
    counter_delta: int
    residual: int


class RegimeAnswer(Model):
    """What would be right for one regime by itself, where no arm is right for both; ``None``: target-only."""

    regime: Regime
    arm: str | None
    sentence: str


class Report(Model):
    """Everything that a page, a figure or a reviewer may state."""

    format: str = Field(default="verdraft/report/v0")
    analysis_version: str = Field(default="0.6")
    experiment: str
    name: str
    manifest: Manifest
    interim: bool
    exploratory: bool
    blocks_planned: int
    blocks_complete: int
    confidence: float | None = Field(default=None)
    looks: list[LookTaken] = Field(default_factory=lambda: [])
    strata: dict[str, list[str]]
    verdicts: list[Verdict]
    recommendation: Recommendation
    selection: Selection | None = Field(default=None)
    results: list[ArmResult]
    comparisons: list[MetricComparison]
    attrition: list[Attrition] = Field(default_factory=lambda: [])
    knees: list[Knee] = Field(default_factory=lambda: [])
    crossovers: list[Crossover] = Field(default_factory=lambda: [])
    schedules: list[KSchedule] = Field(default_factory=lambda: [])
    correctness: list[Correctness]
    mismatches: list[Mismatch]
    losslessness: list[Losslessness] = Field(default_factory=lambda: [])
    sampling: list[SampledEquality] = Field(default_factory=lambda: [])
    correct_answers: list[CorrectAnswers] = Field(default_factory=lambda: [])
    degenerate: list[DegenerateAnswers] = Field(default_factory=lambda: [])
    reconciliations: list[Reconciliation]
    controls: list[ControlSummary]
    findings: list[Control]
    sessions: list[SessionSummary]
    costs: list[DraftCost]
    memory: list[ArmMemory]
    mechanism: list[Mechanism]
    explanations: list[Explanation]
    counterfactuals: list[CounterfactualK]
    headroom: list[Headroom]
    devices: list[Device]
    config_differences: dict[str, dict[str, tuple[str | None, str | None]]]
    not_shown: list[str]
    checklist: list[ChecklistItem] = Field(default_factory=lambda: [])
    pins: list[Pin] = Field(default_factory=lambda: [])
    expiry: Expiry | None = Field(default=None)


class RequestObservation(Model):
    """One offered request. Absent times are ``None``, never zero. ``chunk_ns[i]`` is when the i-th chunk with tokens was received and ``chunk_tokens[i]`` how many tokens it carried; ``sum(chunk_tokens) == len(token_ids)``."""

    request_id: str
    outcome: Outcome
    due_ns: int
    sent_ns: int | None = Field(default=None)
    first_byte_ns: int | None = Field(default=None)
    end_ns: int | None = Field(default=None)
    chunk_ns: list[int] = Field(default_factory=lambda: [])
    chunk_tokens: list[int] = Field(default_factory=lambda: [])
    token_ids: list[int] = Field(default_factory=lambda: [])
    text: str = Field(default="")
    reasoning: str = Field(default="")
    tool_calls: str = Field(default="")
    logprobs: list[float] = Field(default_factory=lambda: [])
    finish_reason: str | None = Field(default=None)
    prompt_tokens: int | None = Field(default=None)
    completion_tokens: int | None = Field(default=None)
    cached_tokens: int | None = Field(default=None)
    queue_time_ns: int | None = Field(default=None)
    speculation: SpeculationCounts | None = Field(default=None)
    http_status: int | None = Field(default=None)
    error: str | None = Field(default=None)


class Retries(Model):
    """Attempts at blocks that came to nothing and were, or will be, followed by another."""

    last_day: int
    in_all: int


class RunRead(Model):
    """One replay of one workload at one load point. ``summary`` is for live pages; decisions use the report."""

    id: UUID
    session_id: UUID
    experiment: str
    block: int
    arm: str
    workload: str
    load: str
    attempt: int
    state: RunState
    failure: Failure | None
    counters: CounterDeltas | None
    summary: RunSummary | None
    controls: list[Control]
    unobservable: dict[str, str]
    started_at: datetime
    finished_at: datetime | None


class RunSummary(Model):
    """Latencies are of served requests; ``None`` where a quantity is undefined."""

    offered: int
    success: int
    ttft_p50_ms: float | None
    tpot_p50_ms: float | None
    e2e_p50_ms: float | None
    output_throughput_tps: float | None
    acceptance_rate: float | None
    mean_length_incl: float | None
    lateness_p99_ms: float | None


class SampledEquality(Model):
    """One arm against target-only at the experiment's own sampling."""

    arm: str
    word: SamplingWord
    reasons: list[str]
    prompts: int
    samples: int
    target_samples: int
    places: int
    tests: list[SamplingTest]
    family: int
    family_error: float
    temperature_ratio: float | None
    temperature_low: float | None
    temperature_high: float | None
    detectable_temperature: float | None
    detectable_variation: float | None
    control_p: float | None


class Sampling(Model):
    """Request parameters that are the same in every arm and for every request."""

    temperature: float
    top_p: float = Field(default=1.0)
    seed: int | None = Field(default=None)
    ignore_eos: bool = Field(default=False)
    top_k: int | None = Field(default=None)
    min_p: float | None = Field(default=None)
    presence_penalty: float | None = Field(default=None)
    frequency_penalty: float | None = Field(default=None)
    repetition_penalty: float | None = Field(default=None)


class SamplingTest(Model):
    """One test; ``p`` is ``None`` where there was nothing to compare, and ``why`` then says so."""

    name: SamplingTestName
    statistic: float | None
    df: int | None
    p: float | None
    p_adjusted: float | None
    rejected: bool
    why: str | None


class SavedTime(Model):
    """One part of the difference; the parts sum to the whole within each block."""

    part: str
    saved_ms: Estimate


class Selection(Model):
    """The best of several arms, over the geometric mean of all primary ratios. A point estimate: it has no interval."""

    arm: str
    among: list[str]
    ratio: float
    ratio_left_out: float
    sentence: str


class Series(Model):
    """``values[i]`` was read at ``at_ns[i]`` nanoseconds after the replay's start; negative before it."""

    name: str
    labels: dict[str, str] = Field(default_factory=lambda: {})
    at_ns: list[int]
    values: list[float]


class Serving(Model):
    """Engine settings that are the same in every arm; each is passed explicitly."""

    dtype: Literal["bfloat16", "float16", "float32"]
    quantization: str = Field(default="none")
    tensor_parallel_size: int = Field(default=1)
    max_model_len: int
    max_num_seqs: int = Field(default=256)
    prefix_caching: bool
    enforce_eager: bool = Field(default=False)
    async_scheduling: bool = Field(default=False)
    kv_cache_space_gib: int | None = Field(default=None)


class SessionRead(Model):
    """One fresh server of one arm in one block."""

    id: UUID
    experiment: str
    block: int
    arm: str
    position: int
    attempt: int
    state: SessionState
    failure: Failure | None
    startup_ns: int | None
    argv: list[str]
    log_sha256: str | None
    resolved_config: dict[str, str]
    memory: dict[str, str]
    memory_breakdown: MemoryBreakdown | None
    devices: list[Device]
    warnings: list[StartupWarning]
    canary: CanaryFacts | None
    flags_left_out: dict[str, str]
    config_source: ConfigSource | None
    diagnosing: bool
    started_at: datetime
    finished_at: datetime | None


class SessionSummary(Model):
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
    warnings: list[StartupWarning] = Field(default_factory=lambda: [])
    flags_left_out: dict[str, str] = Field(default_factory=lambda: {})
    config_source: str | None = Field(default=None)


class Shelving(Model):
    """What may be changed of an experiment at any time: how it is found. What is left out stays as it is."""

    tags: list[str] | None = Field(default=None)
    archived: bool | None = Field(default=None)


class Slo(Model):
    """Service level objectives of one request, for goodput; all must hold together."""

    ttft_ms: float
    tpot_ms: float
    e2e_ms: float


class Software(Model):
    """What the host runs beside the runtime; ``none`` where there is no such part."""

    driver: str
    cuda: str
    os: str
    kernel: str


class Speculation(Model):
    """The ``speculation`` field of spec M1; keys beyond the first three are vLLM's, with its defaults where absent."""

    method: Method
    num_speculative_tokens: int | None = Field(default=None)
    rejection_sampling: RejectionSampling = Field(default="standard")
    draft_sample_method: DraftSampling | None = Field(default=None)
    num_speculative_tokens_per_batch_size: list[tuple[int, int, int]] | None = Field(default=None)
    prompt_lookup_min: int | None = Field(default=None)
    prompt_lookup_max: int | None = Field(default=None)
    suffix_decoding_max_tree_depth: int | None = Field(default=None)
    suffix_decoding_max_cached_requests: int | None = Field(default=None)
    suffix_decoding_max_spec_factor: float | None = Field(default=None)
    suffix_decoding_min_token_prob: float | None = Field(default=None)
    use_heterogeneous_vocab: bool | None = Field(default=None)
    parallel_drafting: bool | None = Field(default=None)
    disable_padded_drafter_batch: bool | None = Field(default=None)
    disable_eagle_block_drop: bool | None = Field(default=None)
    use_local_argmax_reduction: bool | None = Field(default=None)
    draft_tensor_parallel_size: int | None = Field(default=None)
    quantization: str | None = Field(default=None)
    max_model_len: int | None = Field(default=None)
    enforce_eager: bool | None = Field(default=None)
    attention_backend: str | None = Field(default=None)
    moe_backend: str | None = Field(default=None)
    kv_cache_dtype: str | None = Field(default=None)
    draft_lm_head_quantization: str | None = Field(default=None)
    index_share_for_mtp_iteration: bool | None = Field(default=None)
    enable_adaptive_verification: bool | None = Field(default=None)
    dspark_draft_topk: int | None = Field(default=None)
    synthetic_acceptance_rates: list[float] | None = Field(default=None)
    synthetic_acceptance_length: float | None = Field(default=None)


class SpeculationCounts(Model):
    """vLLM's ``metrics.speculative_decoding`` of one request, its own names kept. Steps without a draft are absent from the arrays, as in the engine's counters."""

    num_spec_steps: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    acceptance_histogram: list[int] = Field(default_factory=lambda: [])
    per_step_accepted: list[int] = Field(default_factory=lambda: [])
    per_step_drafted: list[int] = Field(default_factory=lambda: [])


class StartupWarning(Model):
    """A known warning of the engine's log, and the line that says it."""

    name: str
    effect: WarningEffect
    reason: str
    line: str


class TokenCounts(Model):
    """Tokens over all blocks. What an engine cannot tell apart by stratum is ``None``."""

    prompt: int
    cached: int
    requested: int | None
    drafted: int | None
    accepted: int | None
    rejected: int | None
    emitted: int


class TokenMade(Model):
    """A new token with its secret."""

    id: str
    name: str
    project: str
    scope: Scope
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    token: str


class TokenRead(Model):
    """A token without its secret."""

    id: str
    name: str
    project: str
    scope: Scope
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class TokenWish(Model):
    """A token to be made."""

    name: str
    project: str = Field(default="default")
    scope: Scope = Field(default="read")
    expires_in_days: int = Field(default=90)


class TraceHeader(Model):
    """``content_valid`` is false where prompts are not real text: acceptance on them means nothing."""

    format: Literal["verdraft/trace/v0"] = Field(default="verdraft/trace/v0")
    name: str
    description: str
    source: str
    content_valid: bool
    warmup_requests: int
    loads: list[TraceLoad]
    generator: Generator | None = Field(default=None)
    differs: list[str] | None = Field(default=None)
    record: dict[str, JsonValue] | None = Field(default=None)
    privacy: Literal["keyed_hash"] | None = Field(default=None)


class TraceLoad(Model):
    """One load point's part of the trace: offered at a rate, or (closed loop) by a number of clients."""

    name: str
    rate_rps: float | None = Field(default=None)
    clients: int | None = Field(default=None)
    requests: int
    duration_ns: int
    arrival: ArrivalNote | None = Field(default=None)
    turns: Literal["recorded", "own"] | None = Field(default=None)


class TraceRead(Model):
    """A stored trace."""

    digest: str
    name: str
    requests: int
    header: TraceHeader
    created_at: datetime


class Track(Model):
    """One line of the timeline: seconds since the replay's start, and values in ``unit``."""

    name: str
    unit: str
    panel: str
    device: str | None = Field(default=None)
    at_s: list[float]
    values: list[float]


class Verdict(Model):
    """One line of the answer: one arm on one workload at one load."""

    arm: str
    workload: str
    load: str
    regime: Regime
    word: VerdictWord
    sentence: str
    reasons: list[str]
    exploratory: bool
    metric: str
    ratio: Estimate | None
    blocks_needed: int | None


class WebhookMade(Model):
    """A new webhook with its secret, which no later answer holds."""

    id: UUID
    url: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_because: str | None
    secret: str


class WebhookRead(Model):
    """An address that is told when experiments of its project end."""

    id: UUID
    url: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_because: str | None


class WebhookWish(Model):
    """An address to tell."""

    url: str


class Weighed(Model):
    """One candidate, all things considered."""

    arm: str
    standing: app__domain__weighing__Standing
    words: list[PlaceWord]
    burden: Burden
    against_first: Estimate | None
    against_deployed: list[AgainstDeployed] = Field(default_factory=lambda: [])
    command: str
    sentence: str


class WhoRead(Model):
    """Whom the service takes you for."""

    actor: str
    project: str
    scope: Scope


class WorkloadRef(Model):
    """A frozen trace by name and content address, and what makes its answers right."""

    name: str
    trace: str
    quality: Quality | None = Field(default=None)
    degenerate_margin: float | None = Field(default=None)


class app__domain__preflight__outcome__Check(Model):
    """One named check. ``field`` is the manifest field it is about; ``remedy`` is empty where nothing is to be done."""

    name: str
    arm: str | None
    field: str
    outcome: PreflightOutcome
    reason: str
    remedy: str = Field(default="")


class app__domain__reproducibility_terms__Check(Model):
    """One thing that was looked at."""

    what: str
    state: ItemState
    evidence: str
    remedy: str | None = Field(default=None)


for _model in (
    Absent,
    AcceleratorRead,
    AccountRead,
    AccountWish,
    Across,
    AgainstDeployed,
    AlongOutput,
    Alternative,
    AnsweredAgain,
    Arm,
    ArmMemory,
    ArmResult,
    ArmWord,
    ArrivalNote,
    Attention,
    Attrition,
    AuditPage,
    AuditRead,
    Burden,
    CanaryFacts,
    CapabilityRead,
    CasePage,
    CaseRead,
    Cell,
    ChecklistItem,
    Column,
    ConditionRow,
    Control,
    ControlSummary,
    CorrectAnswers,
    Correctness,
    CostEstimate,
    CounterDeltas,
    CounterfactualK,
    Crossover,
    CurrentRead,
    DegenerateAnswers,
    DeletedRead,
    DeliveryRead,
    Device,
    Distribution,
    DraftCost,
    Estimate,
    ExperimentPage,
    ExperimentRead,
    Expiry,
    Explanation,
    FailedRead,
    Failure,
    FailureCount,
    FailureRead,
    Family,
    FigureRead,
    Files,
    Generator,
    Hardware,
    Headroom,
    HostRead,
    ImportRead,
    ImportedAcceptance,
    ImportedPart,
    ImportedResult,
    ImportedSummary,
    ImportedTime,
    ImportedValue,
    KAtLoad,
    KBracket,
    KSchedule,
    KindCount,
    Knee,
    LeaseRead,
    Links,
    LoadPoint,
    LookTaken,
    Losslessness,
    Manifest,
    Margins,
    MatchRate,
    Mechanism,
    MemoryBreakdown,
    MemoryCheck,
    MemoryRow,
    MetricComparison,
    Mismatch,
    Notice,
    ObservationPage,
    OperationsRead,
    OutputRange,
    OwnerRead,
    Pin,
    PinChange,
    PinRow,
    PlaceWord,
    PreflightRead,
    Problem,
    ProblemItem,
    ProjectRead,
    ProjectWish,
    Provenance,
    Quality,
    QueueRead,
    Reason,
    Recommendation,
    Reconciliation,
    RegimeAnswer,
    Report,
    RequestObservation,
    Retries,
    RunRead,
    RunSummary,
    SampledEquality,
    Sampling,
    SamplingTest,
    SavedTime,
    Selection,
    Series,
    Serving,
    SessionRead,
    SessionSummary,
    Shelving,
    Slo,
    Software,
    Speculation,
    SpeculationCounts,
    StartupWarning,
    TokenCounts,
    TokenMade,
    TokenRead,
    TokenWish,
    TraceHeader,
    TraceLoad,
    TraceRead,
    Track,
    Verdict,
    WebhookMade,
    WebhookRead,
    WebhookWish,
    Weighed,
    WhoRead,
    WorkloadRef,
    app__domain__preflight__outcome__Check,
    app__domain__reproducibility_terms__Check,
):
    _model.model_rebuild()
