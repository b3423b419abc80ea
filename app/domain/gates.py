"""Validity: what must hold before speed may be spoken of. Each broken gate makes a comparison INVALID.

A gate's words name the block and what was found; nothing is repaired or left out silently.
"""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, broken_invariants, draft_counts, inconsistencies
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence, RunEvidence, SessionEvidence
from app.domain.latency import lateness_ns, output_tokens, ttft_ns
from app.domain.lifecycle import RunState, SessionState
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.statistics import quantile
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, Outcome

LATENESS_MAX_NS = 5 * NS_PER_MS
LATENESS_SHARE_MAX = 0.02
"""Of the median TTFT; the larger of the two limits applies (method A13)."""
FAILED_SHARE_MAX = 0.01
CACHED_SHARE_MAX = 0.01
"""Cached prompt tokens may differ between arms by this share of all prompt tokens."""

ALLOWED_SECTIONS = frozenset({"speculative_config"})
ALLOWED_FIELDS = frozenset(
    {
        # consequences of speculation (method D4)
        "per_request_spec_decode_metrics",
        "num_lookahead_tokens",
        "num_lookahead_slots",
        "max_num_scheduled_tokens",
        "num_gpu_blocks",
        "num_cpu_blocks",
        "kv_cache_size_tokens",
        "kv_cache_max_concurrency",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "compile_ranges_endpoints",
        # different in every process, whatever the arm
        "instance_id",
        "uds",
        "port",
        "local_cache_dir",
        "cache_dir",
        "VLLM_CACHE_ROOT",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
        "VLLM_RPC_BASE_PATH",
    }
)

ConfigDifferences = dict[str, tuple[str | None, str | None]]
"""Resolved field → (target-only's value, the arm's)."""


class Reconciliation(BaseModel):
    """Per-request sums against counter deltas of one run; ``residual`` must be 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    arm: str
    workload: str
    load: str
    quantity: str
    per_request_sum: int
    counter_delta: int
    residual: int


def config_differences(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> dict[str, ConfigDifferences]:
    """Arm → fields resolved otherwise than in target-only in any block, outside the allowed set (method D4)."""
    sessions = _sessions(evidence, blocks)
    found: dict[str, ConfigDifferences] = {}
    for (block, arm), session in sorted(sessions.items()):
        target = sessions.get((block, BASELINE_ARM))
        if arm != BASELINE_ARM and target is not None and session.resolved_config and target.resolved_config:
            found.setdefault(arm, {}).update(_differences(target.resolved_config, session.resolved_config))
    return {arm: fields for arm, fields in found.items() if fields}


def reconcile(run: RunEvidence) -> tuple[Reconciliation, ...]:
    """Compare the requests' own sums with the engine's counters, exactly.

    ``generation_tokens`` and the accepted count include tokens cut off by the end of the output on both sides.
    """
    if run.counters is None:
        return ()
    counts = sum((draft_counts(o) for o in run.observations), DraftCounts())
    sums = {
        "prompt_tokens": (sum(o.prompt_tokens or 0 for o in run.observations), run.counters.prompt_tokens),
        "generation_tokens": (sum(map(output_tokens, run.observations)), run.counters.generation_tokens),
        "drafts": (counts.drafts, run.counters.spec_decode_num_drafts),
        "draft_tokens": (counts.drafted, run.counters.spec_decode_num_draft_tokens),
        "accepted_tokens": (counts.accepted, run.counters.spec_decode_num_accepted_tokens),
    }
    return tuple(
        Reconciliation(
            block=run.block,
            arm=run.arm,
            workload=run.workload,
            load=run.load,
            quantity=quantity,
            per_request_sum=told,
            counter_delta=counted,
            residual=told - counted,
        )
        for quantity, (told, counted) in sums.items()
        if counted is not None
    )


def broken_gates(evidence: ExperimentEvidence, blocks: CompleteBlocks, condition: Condition) -> tuple[str, ...]:
    """Every reason why this arm cannot be compared with target-only here; empty when it can."""
    found: list[str] = []
    if not evidence.content_valid.get(condition.workload, False):
        found.append(f"the prompts of {condition.workload} are not real text, so acceptance on them means nothing")
    found += _failures(evidence, blocks, condition)
    found += _unlike_configurations(evidence, blocks, condition.arm)
    expected = {r.request_id for r in evidence.labels.get(condition.workload, ()) if r.load == condition.load}
    for pair in blocks.pairs(condition):
        for run in (pair.target, pair.arm):
            found += [f"block {run.block + 1}, {run.arm}: {words}" for words in _run_problems(run, expected)]
        found += [f"block {pair.block + 1}: {words}" for words in _speculation_problems(evidence, pair)]
        found += [f"block {pair.block + 1}: {words}" for words in _cache_problems(evidence, pair)]
    return tuple(found)


def _failures(evidence: ExperimentEvidence, blocks: CompleteBlocks, condition: Condition) -> Iterator[str]:
    """Sessions and runs without which a block has no pair; a session that died later does not undo this run."""
    runs = {(r.block, r.arm): r for r in evidence.runs if (r.workload, r.load) == (condition.workload, condition.load)}
    for (block, arm), session in sorted(_sessions(evidence, blocks).items()):
        run = runs.get((block, arm))
        if arm not in {condition.arm, BASELINE_ARM} or (run is not None and run.state is RunState.SUCCEEDED):
            continue
        failure = (run.failure if run else None) or session.failure
        told = f"{failure.failure_class}: {failure.message}" if failure else "no cause was recorded"
        what = "run" if run else "session"
        yield f"block {block + 1}: the {what} of {arm} did not complete ({told})"


def _unlike_configurations(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> Iterator[str]:
    for (block, name), session in sorted(_sessions(evidence, blocks).items()):
        started = session.state is SessionState.SUCCEEDED
        if started and name in {arm, BASELINE_ARM} and not session.resolved_config:
            yield f"block {block + 1}: the resolved configuration of {name} was not recorded"
    for field, (target, ours) in sorted(config_differences(evidence, blocks).get(arm, {}).items()):
        yield f"resolved configuration differs in {field}: target-only {target}, {arm} {ours}"


def _run_problems(run: RunEvidence, expected: set[str]) -> Iterator[str]:
    ids = [o.request_id for o in run.observations]
    if len(ids) != len(set(ids)) or set(ids) != expected:
        yield f"{len(ids)} observations do not match the trace's {len(expected)} requests one to one"
    yield from _late_client(run)
    failed = sum(o.outcome is not Outcome.SUCCESS for o in run.observations)
    if failed > FAILED_SHARE_MAX * len(ids):
        yield f"{failed} of {len(ids)} requests failed, more than {FAILED_SHARE_MAX:.0%}"
    if run.counters is None:
        yield "the engine's counters were not recorded"
    for line in reconcile(run):
        if line.residual:
            yield (
                f"{line.quantity}: the requests sum to {line.per_request_sum}, "
                f"the engine counted {line.counter_delta}, residual {line.residual}"
            )


def _late_client(run: RunEvidence) -> Iterator[str]:
    lateness = quantile([late for o in run.observations if (late := lateness_ns(o)) is not None], 0.99)
    median_ttft = quantile([ttft for o in run.observations if (ttft := ttft_ns(o)) is not None], 0.5)
    limit = max(LATENESS_MAX_NS, LATENESS_SHARE_MAX * (median_ttft or 0))
    if lateness is not None and lateness > limit:
        yield (
            f"the client sent late: p99 {lateness / NS_PER_MS:.1f} ms, "
            f"at most {limit / NS_PER_MS:.1f} ms is allowed, so the run is void"
        )


def _speculation_problems(evidence: ExperimentEvidence, pair: Pair) -> Iterator[str]:
    if any(o.speculation is not None for o in pair.target.observations):
        yield "target-only reported speculation"
    contradictions = sorted({w for o in pair.arm.observations if o.speculation for w in inconsistencies(o.speculation)})
    yield from (f"{pair.arm.arm}: per-request counts: {words}" for words in contradictions)
    counters = pair.arm.counters
    if counters is None:
        return
    drafts, drafted, accepted = (
        counters.spec_decode_num_drafts,
        counters.spec_decode_num_draft_tokens,
        counters.spec_decode_num_accepted_tokens,
    )
    if drafts is None or drafted is None or accepted is None:
        yield f"{pair.arm.arm} exposes no speculative counters"
    elif drafted == 0:
        yield f"{pair.arm.arm} drafted nothing"
    elif (at := counters.spec_decode_num_accepted_tokens_per_pos) is not None:
        arm = next(a for a in evidence.manifest.arms if a.name == pair.arm.arm)
        counts = DraftCounts(drafts, drafted, accepted)
        broken = broken_invariants(counts, at, arm.speculation.num_speculative_tokens or 0)
        yield from (f"{pair.arm.arm}: engine counters: {words}" for words in broken)


def _cache_problems(evidence: ExperimentEvidence, pair: Pair) -> Iterator[str]:
    target, arm = (_cached(run) for run in (pair.target, pair.arm))
    if not evidence.manifest.serving.prefix_caching:
        if any(target.values()) or any(arm.values()):
            yield "prompt tokens came from the prefix cache, which the manifest switches off"
        return
    shared = target.keys() & arm.keys()
    apart = sum(abs(target[request] - arm[request]) for request in shared)
    prompt_tokens = sum(o.prompt_tokens or 0 for o in pair.target.observations)
    if apart > CACHED_SHARE_MAX * prompt_tokens:
        differing = sum(target[request] != arm[request] for request in shared)
        yield f"{differing} requests differ in cached prompt tokens between the arms, by {apart} tokens together"


def _cached(run: RunEvidence) -> dict[str, int]:
    return {o.request_id: o.cached_tokens or 0 for o in run.observations}


def _sessions(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> dict[tuple[int, str], SessionEvidence]:
    return {(s.block, s.arm): s for s in evidence.sessions if s.block in blocks.indices}


def _differences(target: dict[str, str], arm: dict[str, str]) -> Iterable[tuple[str, tuple[str | None, str | None]]]:
    for field in sorted(target.keys() | arm.keys()):
        if target.get(field) != arm.get(field) and not _may_differ(field):
            yield field, (target.get(field), arm.get(field))


def _may_differ(field: str) -> bool:
    parts = field.split(".")
    return parts[-1] in ALLOWED_FIELDS or not ALLOWED_SECTIONS.isdisjoint(parts)
