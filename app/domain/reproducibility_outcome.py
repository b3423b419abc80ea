"""The checklist's items about what was measured: quantities, outputs, loads, controls, and what is published."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from app.domain.condition import Condition
from app.domain.correctness import Correctness
from app.domain.evidence import RequestLabels
from app.domain.greedy_classes import MismatchClass
from app.domain.observation import RequestObservation
from app.domain.pairing import ALL
from app.domain.reproducibility_terms import DIGITS, Check, ChecklistItem, Facts, check, idle, item, named, of_controls
from app.domain.results import ArmResult
from app.domain.run_controls import PLANNED_OUTCOMES
from app.domain.sampling_equality import SampledEquality, SamplingWord
from app.domain.sampling_tests import SamplingTestName
from app.domain.statistics import Estimate
from app.domain.vocabulary import BASELINE_ARM, Outcome, Regime, Saturation

_PROCESSES_MIN = 2
_TOLD = frozenset({Saturation.STABLE, Saturation.SATURATED})
_ENDS = frozenset({SamplingTestName.LENGTH, SamplingTestName.FINISH_REASON})
_LONGER = "offer more requests at each load"


def quantities(facts: Facts) -> ChecklistItem:
    """Everything that belongs beside acceptance was measured, everywhere."""
    whole = [r for r in facts.results if r.stratum == ALL]
    drafting = [r for r in whole if r.arm in facts.evidence.manifest.speculative]
    by_position = sum(bool(r.acceptance_by_position) for r in drafting)
    acceptance = check(
        "acceptance by position",
        drafting and by_position == len(drafting),
        f"known in {by_position} of {len(drafting)} conditions that speculate",
        "use an engine that exposes accepted tokens by position",
    )
    return item(
        "quantities",
        "Acceptance by position, with latency, throughput, queue and memory",
        acceptance if facts.evidence.manifest.speculative else idle("acceptance by position", "no arm speculates"),
        *(_latency(name, [getattr(r, field) for r in whole]) for name, field in _LATENCIES),
        _throughput(whole),
        _memory(facts),
    )


_LATENCIES = (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("ITL per token", "itl_token_ms"), ("queue", "queue_ms"))


def outputs(facts: Facts) -> ChecklistItem:
    """Greedy answers are target-only's, and sampled ones come from its distribution."""
    greedy = [_greedy(found) for found in facts.correctness]
    sampled = [_sampled(found) for found in facts.sampling] or [_not_sampled(facts)]
    return item("outputs", "Greedy equality and sampled behaviour", *greedy, *sampled)


def loads(facts: Facts) -> ChecklistItem:
    """Low load is told from saturation, so that no growing queue is taken for latency or throughput."""
    of = {load.name: load.regime for load in facts.evidence.manifest.loads}
    regimes = {regime: [name for name, one in of.items() if one is regime] for regime in Regime}
    low = {c: s for c, s in facts.saturation.items() if of[c.load] is Regime.LATENCY}
    untold = {c: s for c, s in facts.saturation.items() if s not in _TOLD}
    return item(
        "loads",
        "Low load apart from saturation",
        check(
            "both regimes",
            all(regimes.values()),
            "; ".join(f"{regime}: {named(names) or 'none'}" for regime, names in regimes.items()),
            "add a load of the missing regime",
        ),
        check(
            "low load is low",
            low and set(low.values()) == {Saturation.STABLE},
            f"at loads of the latency regime: {_states(low)}",
            f"offer less at those loads; where it is undecided, {_LONGER}, for 50 service times",
        ),
        check(
            "every queue is told",
            facts.saturation and not untold,
            f"over all conditions: {_states(facts.saturation)}",
            f"{_LONGER}, for 50 service times or until the queue clearly grows",
        ),
    )


def controls(facts: Facts) -> ChecklistItem:
    """What could speed one arm up, or spoil it, without its draft."""
    cache = ("prefix-hit parity" if facts.evidence.manifest.serving.prefix_caching else "prefix cache is off",)
    errors = ("one observation per request", "failed requests", "engine counters")
    return item(
        "controls",
        "Prefix caching, warm-up, EOS, cancellation and errors controlled",
        of_controls(facts, "prefix caching", cache, "give each load prompts of its own, or switch the cache off"),
        of_controls(
            facts, "warm-up", ("warm-up",), "warm up with more requests; to tell it, a run needs 30 served ones"
        ),
        _ends(facts),
        _planned_ends(facts),
        of_controls(facts, "errors", errors, "read the failed requests of those runs, and repeat them"),
    )


def published(facts: Facts) -> ChecklistItem:
    """What a stranger needs to compute everything again."""
    seen = list(_observations(facts))
    served = [o for o in seen if o.outcome is Outcome.SUCCESS]
    silent = sum(not o.token_ids for o in served)
    runs = [run for by_block in facts.blocks.runs.values() for run in by_block.values()]
    empty = sum(not run.observations for run in runs)
    told = f"{len(served) - silent} of {len(served)} served ones with their token ids"
    cases = f"{len(seen)} observed requests of {len(runs)} compared runs, {told}"
    off = sum(bool(line.residual) for line in facts.reconciliations)
    sums = f"{len(facts.reconciliations) - off} of {len(facts.reconciliations)} sums over requests are the engine's own"
    manifest = facts.evidence.manifest
    traces = ", ".join(f"{workload.name} {workload.trace[:DIGITS]}" for workload in manifest.workloads)
    return item(
        "published",
        "Manifest and raw cases published",
        check("manifest", holds=True, evidence=f"sha256 {manifest.digest}; traces {traces}", remedy=""),
        check("raw cases", runs and not empty and not silent, cases, "use an engine that returns token ids"),
        check(
            "nothing is only an aggregate",
            facts.reconciliations and not off,
            sums,
            "read which sums differ, and why (docs/reconciliation.md)",
        ),
    )


def _latency(name: str, found: Sequence[Mapping[str, Estimate]]) -> Check:
    known = {q: sum(_known(one.get(q)) for one in found) for q in ("p50", "p95", "p99")}
    more = ", ".join(f"{q} in {known[q]}" for q in ("p95", "p99"))
    evidence = f"p50 in {known['p50']} of {len(found)} conditions; as far as there are requests enough, {more}"
    return check(name, found and known["p50"] == len(found), evidence, "use an engine that tells it for each request")


def _throughput(found: Sequence[ArmResult]) -> Check:
    known = sum(_known(r.output_throughput_tps) and _known(r.request_throughput_rps) for r in found)
    evidence = f"tokens/s and requests/s in {known} of {len(found)} conditions"
    return check("throughput", found and known == len(found), evidence, _LONGER)


def _memory(facts: Facts) -> Check:
    arms = {arm.name for arm in facts.evidence.manifest.arms}
    whole = {m.arm for m in facts.memory if m.breakdown.total_bytes is not None}
    rows = [row for m in facts.memory for row in m.breakdown.rows]
    measured = sum(row.size_bytes is not None for row in rows)
    evidence = f"measured for {len(whole)} of {len(arms)} arms; {measured} of {len(rows)} parts have a size"
    return check("memory", whole == arms, evidence, "measure on a host whose memory can be read (docs/memory.md)")


def _known(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None


def _greedy(found: Correctness) -> Check:
    control = max((rate.control_prompts for rate in found.rates), default=0)
    untold = found.classes.get(MismatchClass.NOT_DIAGNOSED, 0)
    parts = [found.sentence]
    if found.compared:
        parts.append(f"{control} prompts of target-only against itself as control")
    if untold:
        parts.append(f"{untold} differences without a diagnosis")
    good = found.compared and not found.broken and not untold and found.processes >= _PROCESSES_MIN and control
    remedy = "read the mismatches; equality is only shown by two processes of each arm, beside a control"
    return check(f"greedy, {found.arm}", good, "; ".join(parts), remedy)


def _sampled(found: SampledEquality) -> Check:
    evidence = (
        f"{found.word}: {found.samples} samples of {found.prompts} prompts under {len(found.tests)} tests "
        f"({found.family_error:.0%} of error over all arms)"
    )
    reasons = f"; {named(found.reasons)}" if found.reasons else ""
    remedy = "ask for more samples, or read which test rejects (docs/sampling.md)"
    return check(f"sampled, {found.arm}", found.word is SamplingWord.PASS, evidence + reasons, remedy)


def _not_sampled(facts: Facts) -> Check:
    """Greedy by its manifest; a request may still ask for a temperature of its own, which no test holds to anything."""
    own = sum(label.is_sampled for labels in facts.evidence.labels.values() for label in labels)
    if facts.evidence.manifest.sampling.temperature == 0 and not own:
        return idle("sampled", "nothing is sampled: temperature 0, and no request asks for another")
    evidence = f"{own} requests are sampled, and no test compares their distribution"
    return check("sampled", holds=False, evidence=evidence, remedy="state the temperature in the manifest's sampling")


def _states(found: Mapping[Condition, Saturation]) -> str:
    count = Counter(found.values())
    return ", ".join(f"{count[state]} {state}" for state in Saturation if count[state]) or "no condition"


def _ends(facts: Facts) -> Check:
    """Greedy answers must end alike; of sampled ones, the distribution of their ends must be the same."""
    sampling, what = facts.evidence.manifest.sampling, "EOS"
    setting = f"ignore_eos {str(sampling.ignore_eos).lower()} in every arm"
    remedy = "read where the answers differ: an end that one arm does not have changes how much work it does"
    if sampling.temperature > 0:
        ends = [t for found in facts.sampling for t in found.tests if t.name in _ENDS]
        held = ends and all(t.p is not None and not t.rejected for t in ends)
        made, rejecting = sum(t.p is not None for t in ends), sum(t.rejected for t in ends)
        evidence = f"{setting}; {made} of {len(ends)} tests of lengths and finish reasons were made, {rejecting} reject"
        return check(what, held, evidence, remedy)
    pairs = [ends for c in facts.blocks.runs if c.arm != BASELINE_ARM for ends in _pairs(facts, c)]
    same = sum(ours == theirs for ours, theirs in pairs)
    evidence = f"{setting}; {same} of {len(pairs)} pairs of served answers end for the same reason at the same length"
    return check(what, pairs and same == len(pairs), evidence, remedy)


_End = tuple[str | None, int | None]


def _pairs(facts: Facts, condition: Condition) -> Iterator[tuple[_End, _End]]:
    """How each request ended in the arm and in target-only of the same block, where both were served."""
    for pair in facts.blocks.pairs(condition):
        theirs = {o.request_id: _end(o) for o in pair.target.observations if o.outcome is Outcome.SUCCESS}
        for o in pair.arm.observations:
            if o.outcome is Outcome.SUCCESS and o.request_id in theirs:
                yield _end(o), theirs[o.request_id]


def _end(observation: RequestObservation) -> _End:
    return observation.finish_reason, observation.completion_tokens


def _planned_ends(facts: Facts) -> Check:
    """Requests that the trace itself ends early, and those that were ended although it does not."""
    ended, astray, stray = 0, 0, 0
    for condition, runs in facts.blocks.runs.items():
        labels = {r.request_id: r for r in facts.evidence.labels.get(condition.workload, ())}
        for o in (o for run in runs.values() for o in run.observations):
            allowed = _allowed(labels.get(o.request_id))
            ended += bool(allowed)
            astray += bool(allowed) and o.outcome not in allowed | {Outcome.SUCCESS}
            stray += o.outcome is Outcome.CLIENT_CANCEL and Outcome.CLIENT_CANCEL not in allowed
    if not ended and not stray and facts.blocks.indices:
        return idle("cancellation", "no request of the traces ends early, and none was canceled")
    evidence = f"{ended - astray} of {ended} requests that the trace ends early did so, or were done; "
    evidence += f"{stray} others were canceled"
    return check("cancellation", ended and not astray and not stray, evidence, "read the outcomes of those requests")


def _allowed(label: RequestLabels | None) -> set[Outcome]:
    return PLANNED_OUTCOMES.get(label.planned_end or "", set[Outcome]()) if label else set[Outcome]()


def _observations(facts: Facts) -> Iterator[RequestObservation]:
    return (o for runs in facts.blocks.runs.values() for run in runs.values() for o in run.observations)
