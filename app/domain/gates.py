"""Validity: what must hold before speed may be spoken of. Each broken gate makes a comparison INVALID.

A gate's words name the block and what was found; nothing is repaired or left out silently.
"""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition
from app.domain.control import Control, ControlOutcome
from app.domain.evidence import CounterDeltas, ExperimentEvidence, RunEvidence
from app.domain.lifecycle import RunState, SessionState
from app.domain.order import order_drift
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.reconciliation import Reconciliation, reconcile
from app.domain.resolution import config_differences, unlike_configurations
from app.domain.run_controls import Labels, run_controls
from app.domain.startup_gates import startup_problems, without_request_counts
from app.domain.vocabulary import BASELINE_ARM, Saturation

CACHED_SHARE_MAX = 0.01
"""Cached prompt tokens may differ between arms by this share of all prompt tokens."""

Run = tuple[int, str, str, str]
"""Block, arm, workload and load."""


class ControlSummary(BaseModel):
    """One control over all compared runs: how often each outcome, and the figure farthest on the wrong side."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    outcomes: dict[str, int]
    worst: Control
    """The first of the gravest outcome, with the largest figure among those."""


def controls_of(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> dict[Run, tuple[Control, ...]]:
    """Every compared run's own controls, and those of each candidate's run beside target-only's."""
    speculative = {arm.name: arm.k for arm in evidence.manifest.arms}
    blind = without_request_counts(evidence)
    found: dict[Run, tuple[Control, ...]] = {}
    for condition, runs in blocks.runs.items():
        labels = _labels(evidence, condition)
        for run in runs.values():
            told = (run.block, run.arm) not in blind
            found[_key(run)] = run_controls(run, labels, k=speculative[run.arm], counts_per_request=told)
        if condition.arm != BASELINE_ARM:
            for pair in blocks.pairs(condition):
                found[_key(pair.arm)] += tuple(_pair_controls(evidence, pair))
    return found


def experiment_controls(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, saturation: Mapping[Condition, Saturation]
) -> tuple[Control, ...]:
    """What no run shows by itself: equal configurations, queues, and a drift over the whole experiment."""
    return (
        *_configurations(evidence, blocks),
        *(_queue(condition, state) for condition, state in saturation.items()),
        *order_drift(evidence, blocks),
    )


def summaries(controls: Iterable[Control]) -> tuple[ControlSummary, ...]:
    """The controls by name, in the order in which they come."""
    named: dict[str, list[Control]] = {}
    for control in controls:
        named.setdefault(control.name, []).append(control)
    return tuple(_summary(name, found) for name, found in named.items())


def findings(controls: Iterable[Control]) -> tuple[Control, ...]:
    """The controls that failed or warn, the failed first."""
    told = [c for c in controls if _GRAVITY[c.outcome] > _GRAVITY[ControlOutcome.NOT_CHECKABLE]]
    return tuple(sorted(told, key=lambda c: (-_GRAVITY[c.outcome], c.block or 0, c.arm or "", c.name)))


def reconcile_all(evidence: ExperimentEvidence) -> tuple[Reconciliation, ...]:
    """Every run's sums beside its counters; speculation only where its requests carry counts of their own."""
    blind = without_request_counts(evidence)
    return tuple(
        line for run in evidence.runs for line in reconcile(run, counts_per_request=(run.block, run.arm) not in blind)
    )


def broken_gates(
    evidence: ExperimentEvidence,
    blocks: CompleteBlocks,
    condition: Condition,
    controls: Mapping[Run, tuple[Control, ...]],
) -> tuple[str, ...]:
    """Every reason why this arm cannot be compared with target-only here; empty when it can."""
    found: list[str] = []
    if not evidence.content_valid.get(condition.workload, False):
        found.append(f"the prompts of {condition.workload} are not real text, so acceptance on them means nothing")
    found += _failures(evidence, blocks, condition)
    found += startup_problems(evidence, blocks, condition.arm)
    found += unlike_configurations(evidence, blocks, condition.arm)
    for pair in blocks.pairs(condition):
        for run in (pair.target, pair.arm):
            failed = (c for c in controls.get(_key(run), ()) if c.outcome is ControlOutcome.FAIL)
            found += [f"block {run.block + 1}, {run.arm}: {control.words}" for control in failed]
    return tuple(found)


_QUEUES = {
    Saturation.STABLE: (ControlOutcome.PASS, ""),
    Saturation.SUSPECT: (ControlOutcome.WARN, "its queue may grow: one of two signs of saturation is there"),
    Saturation.SATURATED: (
        ControlOutcome.WARN,
        "its queue grows: throughput is capacity, latency grows with time",
    ),
    Saturation.UNDECIDED: (ControlOutcome.NOT_CHECKABLE, "too short, below 50 service times, to tell"),
}
_GRAVITY = {
    ControlOutcome.PASS: 0,
    ControlOutcome.NOT_CHECKABLE: 1,
    ControlOutcome.WARN: 2,
    ControlOutcome.FAIL: 3,
}


def _summary(name: str, found: list[Control]) -> ControlSummary:
    tally = {str(outcome): sum(c.outcome is outcome for c in found) for outcome in ControlOutcome}
    worst = max(found, key=lambda c: (_GRAVITY[c.outcome], abs(c.figure or 0.0)))
    return ControlSummary(name=name, outcomes={word: count for word, count in tally.items() if count}, worst=worst)


def _key(run: RunEvidence) -> Run:
    return run.block, run.arm, run.workload, run.load


def _labels(evidence: ExperimentEvidence, condition: Condition) -> Labels:
    return {r.request_id: r for r in evidence.labels.get(condition.workload, ()) if r.load == condition.load}


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


def _pair_controls(evidence: ExperimentEvidence, pair: Pair) -> Iterator[Control]:
    if pair.arm.counters is not None and pair.arm.arm in evidence.manifest.speculative:
        yield _speculates(pair.arm, pair.arm.counters)
    yield _same_prompts(pair)
    yield _cache_parity(pair) if evidence.manifest.serving.prefix_caching else _cache_is_off(pair)


def _configurations(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[Control]:
    differing = config_differences(evidence, blocks)
    for arm in evidence.manifest.candidates:
        fields = differing.get(arm.name, {})
        words = f"resolved otherwise than in target-only: {', '.join(sorted(fields))}"
        yield Control(
            name="resolved configuration",
            block=None,
            arm=arm.name,
            workload=None,
            load=None,
            outcome=ControlOutcome.FAIL if fields else ControlOutcome.PASS,
            figure=len(fields),
            threshold=0,
            unit="settings",
            words=words if fields else "",
        )


def _queue(condition: Condition, state: Saturation) -> Control:
    outcome, words = _QUEUES[state]
    return Control(
        name="saturation",
        block=None,
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        outcome=outcome,
        figure=None,
        threshold=None,
        unit="",
        words=words,
    )


def _speculates(run: RunEvidence, counters: CounterDeltas) -> Control:
    drafted = counters.spec_decode_num_draft_tokens
    known = None not in (drafted, counters.spec_decode_num_drafts, counters.spec_decode_num_accepted_tokens)
    words = "it drafted nothing" if known else "it exposes no speculative counters"
    return _broken_if(
        not drafted or not known, run, "the arm speculates", figure=drafted, threshold=1, unit="tokens", words=words
    )


def _same_prompts(pair: Pair) -> Control:
    """Tokens of each request's prompt as the server counted them: both arms were sent the same bytes."""
    theirs = {o.request_id: o.prompt_tokens for o in pair.target.observations}
    differing = [
        o.request_id
        for o in pair.arm.observations
        if None not in (o.prompt_tokens, theirs.get(o.request_id)) and o.prompt_tokens != theirs[o.request_id]
    ]
    words = f"{len(differing)} requests have another number of prompt tokens than in target-only ({differing[:1]})"
    return _broken_if(
        differing, pair.arm, "same prompts", figure=len(differing), threshold=0, unit="requests", words=words
    )


def _cache_is_off(pair: Pair) -> Control:
    cached = sum(_cached(pair.target).values()) + sum(_cached(pair.arm).values())
    words = "prompt tokens came from the prefix cache, which the manifest switches off"
    return _broken_if(cached, pair.arm, "prefix cache is off", figure=cached, threshold=0, unit="tokens", words=words)


def _cache_parity(pair: Pair) -> Control:
    target, arm = _cached(pair.target), _cached(pair.arm)
    shared = target.keys() & arm.keys()
    apart = sum(abs(target[request] - arm[request]) for request in shared)
    limit = CACHED_SHARE_MAX * sum(o.prompt_tokens or 0 for o in pair.target.observations)
    differing = sum(target[request] != arm[request] for request in shared)
    words = f"{differing} requests differ in cached prompt tokens between the arms, by {apart} tokens together"
    return _broken_if(
        apart > limit, pair.arm, "prefix-hit parity", figure=apart, threshold=limit, unit="tokens", words=words
    )


def _cached(run: RunEvidence) -> dict[str, int]:
    return {o.request_id: o.cached_tokens or 0 for o in run.observations}


def _broken_if(
    broken: object, run: RunEvidence, name: str, *, figure: float | None, threshold: float, unit: str, words: str
) -> Control:
    return Control(
        name=name,
        block=run.block,
        arm=run.arm,
        workload=run.workload,
        load=run.load,
        outcome=ControlOutcome.FAIL if broken else ControlOutcome.PASS,
        figure=figure,
        threshold=threshold,
        unit=unit,
        words=words if broken else "",
    )
