"""Validity: what must hold before speed may be spoken of. Each broken gate makes a comparison INVALID.

A gate's words name the block and what was found; nothing is repaired or left out silently.
"""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, broken_invariants, draft_counts, inconsistencies
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence, RequestLabels, RunEvidence
from app.domain.latency import output_tokens
from app.domain.lateness import late_client
from app.domain.lifecycle import RunState, SessionState
from app.domain.observation import RequestObservation
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.resolution import unlike_configurations
from app.domain.startup_gates import startup_problems, without_request_counts
from app.domain.vocabulary import BASELINE_ARM, Outcome

FAILED_SHARE_MAX = 0.01
CACHED_SHARE_MAX = 0.01
"""Cached prompt tokens may differ between arms by this share of all prompt tokens."""

PLANNED_OUTCOMES = {"cancel": {Outcome.CLIENT_CANCEL}, "deadline": {Outcome.DEADLINE_MISS, Outcome.STALL}}
"""How a request may end that the trace itself ends early; why it was not done by its deadline is then not a fault."""

Labels = Mapping[str, RequestLabels]
"""Request id → what the trace says of it, for one workload and load."""


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


def reconcile_all(evidence: ExperimentEvidence) -> tuple[Reconciliation, ...]:
    """Every run's sums beside its counters; speculation only where its requests carry counts of their own."""
    blind = without_request_counts(evidence)
    return tuple(
        line for run in evidence.runs for line in reconcile(run, counts_per_request=(run.block, run.arm) not in blind)
    )


def reconcile(run: RunEvidence, *, counts_per_request: bool = True) -> tuple[Reconciliation, ...]:
    """Compare the requests' own sums with the engine's counters, exactly.

    ``generation_tokens`` and the accepted count include tokens cut off by the end of the output on both sides.
    """
    if run.counters is None:
        return ()
    sums = {
        "prompt_tokens": (sum(o.prompt_tokens or 0 for o in run.observations), run.counters.prompt_tokens),
        "generation_tokens": (sum(map(output_tokens, run.observations)), run.counters.generation_tokens),
        **(_speculation_sums(run) if counts_per_request else {}),
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


def _speculation_sums(run: RunEvidence) -> dict[str, tuple[int, int | None]]:
    counts = sum((draft_counts(o) for o in run.observations), DraftCounts())
    counters = run.counters
    if counters is None:
        return {}
    return {
        "drafts": (counts.drafts, counters.spec_decode_num_drafts),
        "draft_tokens": (counts.drafted, counters.spec_decode_num_draft_tokens),
        "accepted_tokens": (counts.accepted, counters.spec_decode_num_accepted_tokens),
    }


def broken_gates(evidence: ExperimentEvidence, blocks: CompleteBlocks, condition: Condition) -> tuple[str, ...]:
    """Every reason why this arm cannot be compared with target-only here; empty when it can."""
    found: list[str] = []
    if not evidence.content_valid.get(condition.workload, False):
        found.append(f"the prompts of {condition.workload} are not real text, so acceptance on them means nothing")
    found += _failures(evidence, blocks, condition)
    found += startup_problems(evidence, blocks, condition.arm)
    found += unlike_configurations(evidence, blocks, condition.arm)
    labels = {r.request_id: r for r in evidence.labels.get(condition.workload, ()) if r.load == condition.load}
    blind = without_request_counts(evidence)
    for pair in blocks.pairs(condition):
        for run in (pair.target, pair.arm):
            lines = reconcile(run, counts_per_request=(run.block, run.arm) not in blind)
            words = (*_run_problems(run, labels), *_residuals(lines, exact=not _ends_early(labels)))
            found += [f"block {run.block + 1}, {run.arm}: {told}" for told in words]
        found += [f"block {pair.block + 1}: {words}" for words in _speculation_problems(evidence, pair)]
        found += [f"block {pair.block + 1}: {words}" for words in _cache_problems(evidence, pair)]
    return tuple(found)


def _failures(evidence: ExperimentEvidence, blocks: CompleteBlocks, condition: Condition) -> Iterator[str]:
    """Sessions and runs without which a block has no pair; a session that died later does not undo this run."""
    here = (condition.workload, condition.load)
    runs = {(r.block, r.arm): r for r in evidence.runs if (r.workload, r.load) == here and r.state is not RunState.LOST}
    sessions = {
        (s.block, s.arm): s for s in evidence.sessions if s.block in blocks.indices and s.state is not SessionState.LOST
    }
    for (block, arm), session in sorted(sessions.items()):
        run = runs.get((block, arm))
        if arm not in {condition.arm, BASELINE_ARM} or (run is not None and run.state is RunState.SUCCEEDED):
            continue
        failure = (run.failure if run else None) or session.failure
        told = f"{failure.failure_class}: {failure.message}" if failure else "no cause was recorded"
        what = "run" if run else "session"
        yield f"block {block + 1}: the {what} of {arm} did not complete ({told})"


def _run_problems(run: RunEvidence, labels: Labels) -> Iterator[str]:
    ids = [o.request_id for o in run.observations]
    if len(ids) != len(set(ids)) or set(ids) != set(labels):
        yield f"{len(ids)} observations do not match the trace's {len(labels)} requests one to one"
    if late := late_client(run.observations):
        yield late
    failed = sum(not _ended_as_planned(o, labels) for o in run.observations)
    if failed > FAILED_SHARE_MAX * len(ids):
        yield f"{failed} of {len(ids)} requests failed, more than {FAILED_SHARE_MAX:.0%}"
    if run.counters is None:
        yield "the engine's counters were not recorded"


def _ended_as_planned(observation: RequestObservation, labels: Labels) -> bool:
    """Served, or ended early where the trace itself says so."""
    label = labels.get(observation.request_id)
    planned = PLANNED_OUTCOMES.get(label.planned_end or "", set()) if label else set[Outcome]()
    return observation.outcome is Outcome.SUCCESS or observation.outcome in planned


def _ends_early(labels: Labels) -> bool:
    return any(label.planned_end for label in labels.values())


def _residuals(lines: Iterable[Reconciliation], *, exact: bool) -> Iterator[str]:
    """Differences; where requests end early on purpose, the engine may have counted what nobody saw, never less."""
    for line in lines:
        if line.residual > 0 or (exact and line.residual):
            yield (
                f"{line.quantity}: the requests sum to {line.per_request_sum}, "
                f"the engine counted {line.counter_delta}, residual {line.residual}"
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
