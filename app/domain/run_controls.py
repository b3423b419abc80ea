"""What is controlled in one run by itself: each control named, with its figure and threshold (spec R3, E2; method A).

A control that cannot be checked says why; it never passes in silence.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from app.domain.acceptance import DraftCounts, broken_invariants, inconsistencies
from app.domain.control import Control, ControlOutcome, Finding
from app.domain.evidence import RequestLabels, RunEvidence
from app.domain.exposition import PREEMPTIONS, RUNNING, START_TIME
from app.domain.lateness import lateness_of
from app.domain.observation import RequestObservation
from app.domain.reconciliation import Reconciliation, reconcile
from app.domain.series import Series, the_one
from app.domain.steadiness import (
    COLLAPSE_RATIO,
    DRIFT_MIN,
    LEAK_RATIO,
    Kinds,
    beginning,
    collapsed,
    drift,
    kinds_of,
    paces,
    thirds,
    truncation,
)
from app.domain.telemetry_controls import telemetry_findings
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome

FAILED_SHARE_MAX = 0.01
SCRAPE_GAP_MAX_S = 5.0
"""Scrapes are a second apart; a longer silence leaves part of the run unseen."""

PLANNED_OUTCOMES = {"cancel": {Outcome.CLIENT_CANCEL}, "deadline": {Outcome.DEADLINE_MISS, Outcome.STALL}}
"""How a request may end that the trace itself ends early; why it was not done by its deadline is then not a fault."""

Labels = Mapping[str, RequestLabels]
"""Request id → what the trace says of it, for one workload and load."""

PASS, WARN, FAIL, NOT_CHECKABLE = (
    ControlOutcome.PASS,
    ControlOutcome.WARN,
    ControlOutcome.FAIL,
    ControlOutcome.NOT_CHECKABLE,
)


def run_controls(
    run: RunEvidence, labels: Labels, *, k: int | None, counts_per_request: bool = True
) -> tuple[Control, ...]:
    """Every control of the run; ``k`` is its arm's number of speculative tokens, ``None`` without any."""
    found = [
        *_client(run, labels),
        *_counted(run, labels, counts_per_request=counts_per_request),
        *_accounting(run, k),
        *_continuous(run.series, run.observations),
        *_regime(run.observations, kinds_of({name: label.strata for name, label in labels.items()})),
        *telemetry_findings(run.series, run.unobservable),
    ]
    where = {"block": run.block, "arm": run.arm, "workload": run.workload, "load": run.load}
    return tuple(Control(**where, **finding._asdict()) for finding in found)


def _client(run: RunEvidence, labels: Labels) -> Iterator[Finding]:
    ids = [o.request_id for o in run.observations]
    apart = len(ids) - len(set(ids)) + len(set(ids) ^ set(labels))
    words = f"{len(ids)} observations do not match the trace's {len(labels)} requests one to one"
    yield _exact("one observation per request", apart, "requests", words)
    late = lateness_of(run.observations)
    if late is None:
        yield _unknown("client lateness", "ms", "no request was sent")
    else:
        yield _bounded("client lateness", late.p99_ns / NS_PER_MS, late.limit_ns / NS_PER_MS, "ms", late.words)
    failed = sum(not _ended_as_planned(o, labels) for o in run.observations)
    share = failed / len(ids) if ids else 0.0
    words = f"{failed} of {len(ids)} requests failed, more than {FAILED_SHARE_MAX:.0%}"
    yield _bounded("failed requests", share, FAILED_SHARE_MAX, "share", words)


def _ended_as_planned(observation: RequestObservation, labels: Labels) -> bool:
    """Served, or ended early where the trace itself says so."""
    label = labels.get(observation.request_id)
    planned = PLANNED_OUTCOMES.get(label.planned_end or "", set()) if label else set[Outcome]()
    return observation.outcome is Outcome.SUCCESS or observation.outcome in planned


def _counted(run: RunEvidence, labels: Labels, *, counts_per_request: bool) -> Iterator[Finding]:
    """Where requests end early on purpose, the engine may have counted what nobody saw, never less."""
    if run.counters is None:
        yield Finding("engine counters", FAIL, None, None, "", "the engine's counters were not recorded")
        return
    ends_early = any(label.planned_end for label in labels.values())
    for line in reconcile(run, counts_per_request=counts_per_request):
        excused = ends_early and line.residual <= 0
        outcome = PASS if not line.residual else WARN if excused else FAIL
        yield Finding(
            f"reconciliation: {line.quantity}",
            outcome,
            line.residual,
            0,
            "",
            _residual_words(line) if line.residual else "",
        )
    if not counts_per_request:
        yield _unknown("reconciliation: drafts", "", "this engine gives no speculation counts per request")


def _residual_words(line: Reconciliation) -> str:
    return (
        f"{line.quantity}: the requests sum to {line.per_request_sum}, "
        f"the engine counted {line.counter_delta}, residual {line.residual}"
    )


def _accounting(run: RunEvidence, k: int | None) -> Iterator[Finding]:
    told = [o.speculation for o in run.observations if o.speculation is not None]
    if k is None:
        yield _exact("target-only does not speculate", len(told), "requests", "target-only reported speculation")
        return
    contradictions = sorted({words for counts in told for words in inconsistencies(counts)})
    yield _exact("per-request counts", len(contradictions), "", f"per-request counts: {'; '.join(contradictions)}")
    broken = _broken_identities(run, k)
    yield _exact("accounting identities", len(broken), "", f"engine counters: {'; '.join(broken)}")


def _broken_identities(run: RunEvidence, k: int) -> tuple[str, ...]:
    counters = run.counters
    if counters is None or counters.spec_decode_num_accepted_tokens_per_pos is None:
        return ()
    drafts, drafted = counters.spec_decode_num_drafts, counters.spec_decode_num_draft_tokens
    counts = DraftCounts(drafts or 0, drafted or 0, counters.spec_decode_num_accepted_tokens or 0)
    return broken_invariants(counts, counters.spec_decode_num_accepted_tokens_per_pos, k)


def _continuous(series: Sequence[Series], observations: Sequence[RequestObservation]) -> Iterator[Finding]:
    """The scraped series by themselves: no counter went back, no second stayed unseen."""
    if (scraped := the_one(series, RUNNING)) is None:
        yield _unknown("counter continuity", "", "no scrape was recorded")
        return
    falling = sorted({s.name for s in series if _is_counter(s.name) and _falls(s)})
    words = f"counters went backwards while it ran: {', '.join(falling)}"
    yield _exact("counter continuity", len(falling), "counters", words)
    end_ns = max((o.end_ns or 0 for o in observations), default=0)
    seen = sorted({0, *(at for at in scraped.at_ns if 0 < at < end_ns), end_ns})
    gap_s = max(later - earlier for earlier, later in pairwise(seen)) / NS_PER_S if len(seen) > 1 else 0.0
    words = f"nothing was scraped for {gap_s:.1f} s, so what happened then is not in the series"
    yield _bounded("scrapes", gap_s, SCRAPE_GAP_MAX_S, "s", words, worst=WARN)
    preempted = the_one(series, PREEMPTIONS)
    count = preempted.increase() if preempted else None
    if count is not None:
        yield _exact("preemptions", count, "requests", f"{count:.0f} preemptions: the KV cache was full", worst=WARN)


def _is_counter(name: str) -> bool:
    return name == START_TIME or (name.startswith("vllm:") and name.endswith(("_total", "_sum", "_count")))


def _falls(series: Series) -> bool:
    if series.name == START_TIME:
        return len(set(series.values)) > 1
    return any(later < earlier for earlier, later in pairwise(series.values))


def _regime(observations: Sequence[RequestObservation], kinds: Kinds) -> Iterator[Finding]:
    values = paces(observations, kinds)
    yield _steady_state(values)
    yield _drift(values)
    yield _warm_up(values)
    yield _acceptance_in_time(observations, kinds)


def _steady_state(values: Sequence[float]) -> Finding:
    found = truncation(values)
    if found is None:
        return _unknown("steady state", "share", "fewer than 100 served requests: too few for MSER-5")
    words = f"MSER-5 would leave out {found.batches} of {found.of} batches, so it was not steady"
    outcome = PASS if found.steady else WARN
    return Finding("steady state", outcome, found.batches / found.of, 0.5, "share", "" if found.steady else words)


def _drift(values: Sequence[float]) -> Finding:
    found = drift(values)
    if found is None:
        return _unknown("drift", "share", "fewer than 100 served requests: a drift cannot be told from noise")
    words = f"time per token changed by {found.change:+.0%} from its first request to its last (p = {found.p:.1g})"
    outcome = WARN if found.found else PASS
    return Finding("drift", outcome, found.change, DRIFT_MIN, "share", words if found.found else "")


def _warm_up(values: Sequence[float]) -> Finding:
    found = beginning(values)
    if found is None:
        return _unknown("warm-up", "ratio", "fewer than 30 served requests: a slow beginning cannot be told")
    words = (
        f"its first requests took {found.ratio:.2f} times as long per token as the rest (p = {found.p:.1g}): "
        "the server was not warm"
    )
    outcome = FAIL if found.leaks else PASS
    return Finding("warm-up", outcome, found.ratio, LEAK_RATIO, "ratio", words if found.leaks else "")


def _acceptance_in_time(observations: Sequence[RequestObservation], kinds: Kinds) -> Finding:
    found = thirds(observations, kinds)
    if found is None or not found[0].value or found[1].value is None:
        return _unknown("acceptance in time", "ratio", "too few requests that drafted")
    first, last = found
    ratio = (last.value or 0.0) / (first.value or 1.0)
    words = (
        f"acceptance fell from {first.value:.2f} times what its strata have over the whole run in its first third "
        f"to {last.value:.2f} times in its last"
    )
    fell = collapsed(first, last)
    outcome = FAIL if fell else PASS
    return Finding("acceptance in time", outcome, ratio, COLLAPSE_RATIO, "ratio", words if fell else "")


def _exact(name: str, figure: float, unit: str, words: str, worst: ControlOutcome = FAIL) -> Finding:
    return Finding(name, worst if figure else PASS, figure, 0, unit, words if figure else "")


def _bounded(
    name: str, figure: float, threshold: float, unit: str, words: str, *, worst: ControlOutcome = FAIL
) -> Finding:
    over = figure > threshold
    return Finding(name, worst if over else PASS, figure, threshold, unit, words if over else "")


def _unknown(name: str, unit: str, why: str) -> Finding:
    return Finding(name, NOT_CHECKABLE, None, None, unit, why)
