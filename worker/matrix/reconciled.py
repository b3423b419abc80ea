"""What one method's requests say of themselves beside what its engine counted, and which identities do not hold."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, broken_invariants, emitted_after_first, inconsistencies
from app.domain.evidence import CounterDeltas, RunEvidence
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.reconciliation import Reconciliation, reconcile


class Reconciled(BaseModel):
    """One method: every quantity from both sides, and what does not hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str
    requests: int
    finish_reasons: dict[str, int]
    lines: tuple[Reconciliation, ...]
    broken: tuple[str, ...]
    """Identities of the counters, and of single requests, that are violated."""
    beyond_the_end: int
    """Accepted tokens that the end of an output cut off: counted by the engine, never delivered (vllm#56101)."""

    @property
    def holds(self) -> bool:
        """Whether everything agrees to the last token."""
        return bool(self.lines) and not self.broken and not any(line.residual for line in self.lines)


def reconciled(run: RunEvidence, k: int, *, counts_per_request: bool = True) -> Reconciled:
    """The run of a method that drafts ``k`` tokens at most; its ``workload`` names the case."""
    reasons = [str(o.finish_reason) for o in run.observations]
    return Reconciled(
        case=run.workload,
        requests=len(run.observations),
        finish_reasons={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        lines=reconcile(run, counts_per_request=counts_per_request),
        broken=(*_broken_requests(run.observations), *_broken_counters(run, k)),
        beyond_the_end=sum(beyond_the_end(o) for o in run.observations),
    )


def beyond_the_end(observation: RequestObservation) -> int:
    """Accepted tokens of a request that were not delivered.

    A step delivers one token and its accepted drafts, unless the end of the output cuts it. There are as many steps as
    chunks after the first, and where a busy server merged chunks at least as many as drafts.
    """
    told = observation.speculation
    drafts, accepted = (told.num_spec_steps, told.num_accepted_draft_tokens) if told else (0, 0)
    steps = max(len(observation.chunk_ns) - 1, drafts)
    return max(steps + accepted - emitted_after_first(observation), 0)


def _broken_requests(observations: Sequence[RequestObservation]) -> Iterator[str]:
    """Within a request nothing may contradict itself, and what was not delivered was cut off from its last step."""
    for observation in observations:
        told, lost = observation.speculation, beyond_the_end(observation)
        if told is not None:
            yield from (f"{observation.request_id}: {words}" for words in inconsistencies(told))
        last = told.per_step_accepted[-1] if told and told.per_step_accepted else 0
        if lost > last:
            yield f"{observation.request_id}: {lost} accepted tokens were not delivered, its last step accepted {last}"


def _broken_counters(run: RunEvidence, k: int) -> Iterator[str]:
    counters = run.counters
    at = counters.spec_decode_num_accepted_tokens_per_pos if counters else None
    if counters is not None and at is not None:
        yield from broken_invariants(_counted(counters), at, k)
        told_at = accepted_at([o.speculation for o in run.observations if o.speculation is not None], len(at))
        if any(o.speculation for o in run.observations) and told_at != at:
            yield f"accepted by position: the steps of the requests say {told_at}, the counters {at}"


def _counted(counters: CounterDeltas) -> DraftCounts:
    return DraftCounts(
        counters.spec_decode_num_drafts or 0,
        counters.spec_decode_num_draft_tokens or 0,
        counters.spec_decode_num_accepted_tokens or 0,
    )


def accepted_at(told: Sequence[SpeculationCounts], positions: int) -> tuple[int, ...]:
    """By position, how many steps accepted more drafts than lie before it."""
    accepted = [count for one in told for count in one.per_step_accepted]
    return tuple(sum(count > position for count in accepted) for position in range(positions))
