"""Faults to put into sound evidence, each with the control that is there for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from app.domain.control import ControlOutcome
from app.domain.evidence import CounterDeltas, ExperimentEvidence, RunEvidence
from app.domain.exposition import GENERATION_TOKENS, PREEMPTIONS, RUNNING, START_TIME
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.series import (
    CLOCK_OFFSET,
    FOREIGN_CPU,
    FOREIGN_PROCESSES,
    STOLEN_CPU,
    THROTTLE_REASONS,
    Series,
)
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, NS_PER_S, Outcome

ARM = "ngram-k4"
TOKENS = 48
FAIL, WARN, UNKNOWN = ControlOutcome.FAIL, ControlOutcome.WARN, ControlOutcome.NOT_CHECKABLE

Change = Callable[[RunEvidence], RunEvidence]


@dataclass(frozen=True)
class Fault:
    """``change`` is made to every run of ``arm`` (or, with ``whole``, to the evidence)."""

    name: str
    control: str
    outcome: ControlOutcome
    change: Change | None = None
    arm: str = ARM
    whole: Callable[[ExperimentEvidence], ExperimentEvidence] | None = None

    def put_into(self, evidence: ExperimentEvidence) -> ExperimentEvidence:
        """The evidence with this one thing wrong."""
        if self.whole is not None:
            return self.whole(evidence)
        change = self.change
        assert change is not None
        runs = tuple(change(run) if run.arm == self.arm else run for run in evidence.runs)
        return evidence.model_copy(update={"runs": runs})


def observed(
    change: Callable[[int, RequestObservation], dict[str, Any]], only: Callable[[int], bool] = lambda _: True
) -> Change:
    """Change fields of the requests, in order of due time, whose index ``only`` chooses."""

    def changed(run: RunEvidence) -> RunEvidence:
        ordered = sorted(run.observations, key=lambda o: o.due_ns)
        seen = tuple(o.model_copy(update=change(i, o)) if only(i) else o for i, o in enumerate(ordered))
        return run.model_copy(update={"observations": seen})

    return changed


def counted(**by: int) -> Change:
    """Counters moved by so much more."""

    def changed(run: RunEvidence) -> RunEvidence:
        assert run.counters is not None
        moved = {name: getattr(run.counters, name) + more for name, more in by.items()}
        return run.model_copy(update={"counters": run.counters.model_copy(update=moved)})

    return changed


def with_counters(change: Callable[[CounterDeltas], dict[str, Any]]) -> Change:
    """Counters changed as a whole."""

    def changed(run: RunEvidence) -> RunEvidence:
        assert run.counters is not None
        return run.model_copy(update={"counters": run.counters.model_copy(update=change(run.counters))})

    return changed


def sampled(name: str, change: Callable[[tuple[float, ...]], Iterable[float]], **labels: str) -> Change:
    """One series' values changed, on the times of the scrapes where the run has no such series."""

    def changed(run: RunEvidence) -> RunEvidence:
        times = next(s.at_ns for s in run.series if s.name == RUNNING)
        there = next((s for s in run.series if s.name == name), None)
        before = there or Series(name=name, labels=labels, at_ns=times, values=(0.0,) * len(times))
        after = before.model_copy(update={"values": tuple(change(before.values))})
        others = tuple(s for s in run.series if s is not there)
        return run.model_copy(update={"series": (*others, after)})

    return changed


def slower(factor: Callable[[float], float]) -> Change:
    """Each answer takes ``factor`` times as long, by its place in the run from 0 to 1."""

    def changed(run: RunEvidence) -> RunEvidence:
        ordered = sorted(run.observations, key=lambda o: o.due_ns)
        seen = tuple(_stretched(o, factor(i / len(ordered))) for i, o in enumerate(ordered))
        return run.model_copy(update={"observations": seen})

    return changed


def _stretched(o: RequestObservation, factor: float) -> RequestObservation:
    def at(time_ns: int | None) -> int | None:
        return None if time_ns is None else o.due_ns + round((time_ns - o.due_ns) * factor)

    chunks = tuple(o.due_ns + round((time_ns - o.due_ns) * factor) for time_ns in o.chunk_ns)
    return o.model_copy(update={"chunk_ns": chunks, "end_ns": at(o.end_ns)})


def _accepting_nothing(o: RequestObservation) -> dict[str, Any]:
    told = o.speculation
    assert told is not None
    none = {"num_accepted_draft_tokens": 0, "per_step_accepted": (0,) * told.num_spec_steps}
    return {"speculation": told.model_copy(update=none)}


def _contradicting(o: RequestObservation) -> dict[str, Any]:
    told = o.speculation
    assert told is not None
    return {"speculation": told.model_copy(update={"per_step_accepted": told.per_step_accepted[:-1]})}


def _with_gap(run: RunEvidence) -> RunEvidence:
    """No scrape in the middle six seconds."""
    half = max(o.due_ns for o in run.observations) // 2

    def kept(s: Series) -> Series:
        pairs = [(at, v) for at, v in zip(s.at_ns, s.values, strict=True) if abs(at - half) > 3 * NS_PER_S]
        return s.model_copy(update={"at_ns": tuple(a for a, _ in pairs), "values": tuple(v for _, v in pairs)})

    return run.model_copy(update={"series": tuple(map(kept, run.series))})


def _without(prefix: str) -> Change:
    return lambda run: run.model_copy(update={"series": tuple(s for s in run.series if not s.name.startswith(prefix))})


def _restarted(values: tuple[float, ...]) -> list[float]:
    """A counter that begins at nothing again half-way."""
    half = len(values) // 2
    return [*values[:half], *(value - values[half] for value in values[half:])]


def _rising(per_second: float) -> Callable[[tuple[float, ...]], list[float]]:
    return lambda values: [per_second * i for i in range(len(values))]


def _cached(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """The prefix cache is on, and only the arm finds anything in it."""
    serving = evidence.manifest.serving.model_copy(update={"prefix_caching": True})
    manifest = evidence.manifest.model_copy(update={"serving": serving})
    hits = observed(lambda _, o: {"cached_tokens": o.prompt_tokens})
    runs = tuple(hits(run) if run.arm == ARM else run for run in evidence.runs)
    return evidence.model_copy(update={"manifest": manifest, "runs": runs})


def _reconfigured(evidence: ExperimentEvidence) -> ExperimentEvidence:
    sessions = tuple(
        s.model_copy(update={"resolved_config": {**s.resolved_config, "scheduler_config.max_num_seqs": "7"}})
        if s.arm == ARM
        else s
        for s in evidence.sessions
    )
    return evidence.model_copy(update={"sessions": sessions})


def on_a_quiet_host(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """The evidence as of a host that nobody else used, whatever else ran on this one."""
    runs = evidence.runs
    for name in (FOREIGN_CPU, STOLEN_CPU):
        calm = sampled(name, lambda values: [0.0] * len(values))
        runs = tuple(map(calm, runs))
    return evidence.model_copy(update={"runs": runs})


DEVICE = {"device": "GPU-1"}
POSITIONS = "spec_decode_num_accepted_tokens_per_pos"
FAULTS = (
    Fault("an observation is missing", "one observation per request", FAIL,
          lambda run: run.model_copy(update={"observations": run.observations[1:]})),
    Fault("an observation came twice", "one observation per request", FAIL,
          lambda run: run.model_copy(update={"observations": (*run.observations, run.observations[0])})),
    Fault("an answer to nobody", "one observation per request", FAIL,
          observed(lambda _, __: {"request_id": "stranger"}, lambda i: i == 0)),
    Fault("a lagging client", "client lateness", FAIL, observed(lambda _, o: {"sent_ns": o.due_ns + 9 * NS_PER_MS})),
    Fault("errors in the stream", "failed requests", FAIL,
          observed(lambda _, __: {"outcome": Outcome.STREAM_ERROR}, lambda i: i % 20 == 0)),
    Fault("truncated answers", "failed requests", FAIL,
          observed(lambda _, __: {"outcome": Outcome.TRUNCATED}, lambda i: i % 20 == 0)),
    Fault("no counters", "engine counters", FAIL, lambda run: run.model_copy(update={"counters": None})),
    Fault("prompt tokens counted too high", "reconciliation: prompt_tokens", FAIL, counted(prompt_tokens=1)),
    Fault("somebody else's tokens", "reconciliation: generation_tokens", FAIL, counted(generation_tokens=TOKENS)),
    Fault("a draft not counted", "reconciliation: drafts", FAIL, counted(spec_decode_num_drafts=-1)),
    Fault("draft tokens counted twice", "reconciliation: draft_tokens", FAIL,
          with_counters(lambda c: {"spec_decode_num_draft_tokens": 2 * (c.spec_decode_num_draft_tokens or 0)})),
    Fault("accepted tokens counted too high", "reconciliation: accepted_tokens", FAIL,
          counted(spec_decode_num_accepted_tokens=3)),
    Fault("half of the engines not summed", "accounting identities", FAIL,
          with_counters(lambda c: {POSITIONS: [at // 2 for at in c.spec_decode_num_accepted_tokens_per_pos or ()]})),
    Fault("positions in another order", "reconciliation: accepted_tokens_at_position_0", FAIL,
          with_counters(lambda c: {POSITIONS: tuple(reversed(c.spec_decode_num_accepted_tokens_per_pos or ()))})),
    Fault("arrays that contradict their sums", "per-request counts", FAIL,
          observed(lambda _, o: _contradicting(o), lambda i: i == 5)),
    Fault("a counter begins anew", "counter continuity", FAIL, sampled(GENERATION_TOKENS, _restarted)),
    Fault("the server restarted", "counter continuity", FAIL,
          sampled(START_TIME, lambda values: [*values[:-1], values[-1] + 60])),
    Fault("nothing was scraped", "counter continuity", UNKNOWN, _without("vllm:")),
    Fault("seconds nobody saw", "scrapes", WARN, _with_gap),
    Fault("a full cache", "preemptions", WARN, sampled(PREEMPTIONS, _rising(1))),
    Fault("a slow first half", "steady state", WARN, slower(lambda place: 4 if place < 0.52 else 1)),
    Fault("an engine that gets slower", "drift", WARN, slower(lambda place: 1 + 2 * place)),
    Fault("a leaking warm-up", "warm-up", FAIL, slower(lambda place: 5 if place < 0.05 else 1)),
    Fault("acceptance collapses", "acceptance in time", FAIL,
          observed(lambda _, o: _accepting_nothing(o), lambda i: i > 60)),
    Fault("hot hardware", "throttling", FAIL, sampled(THROTTLE_REASONS, lambda v: [64.0] * len(v), **DEVICE)),
    Fault("a stranger on the GPU", "foreign GPU processes", FAIL,
          sampled(FOREIGN_PROCESSES, lambda values: [0.0, 1.0, *([0.0] * (len(values) - 2))], **DEVICE)),
    Fault("somebody set the clock", "clock jump", WARN,
          sampled(CLOCK_OFFSET, lambda values: [*values[:-1], values[-1] + NS_PER_S])),
    Fault("a busy neighbour", "foreign CPU", WARN, sampled(FOREIGN_CPU, _rising(50.0))),
    Fault("a greedy hypervisor", "stolen CPU", WARN, sampled(STOLEN_CPU, _rising(50.0))),
    Fault("a sampler that died", "clock jump", UNKNOWN, _without("host:")),
    Fault("target-only speculates", "target-only does not speculate", FAIL,
          observed(lambda _, __: {"speculation": SpeculationCounts(num_spec_steps=0, num_draft_tokens=0,
                                                                  num_accepted_draft_tokens=0)}), BASELINE_ARM),
    Fault("an arm that drafts nothing", "the arm speculates", FAIL,
          with_counters(lambda _: {"spec_decode_num_draft_tokens": 0})),
    Fault("other prompts", "same prompts", FAIL,
          observed(lambda _, o: {"prompt_tokens": (o.prompt_tokens or 0) + 1}, lambda i: i == 3)),
    Fault("hits although the cache is off", "prefix cache is off", FAIL,
          observed(lambda _, __: {"cached_tokens": 16}, lambda i: i == 3)),
    Fault("hits in one arm only", "prefix-hit parity", FAIL, whole=_cached),
    Fault("another setting resolved", "resolved configuration", FAIL, whole=_reconfigured),
)  # fmt: skip
