"""What the requests say of themselves beside what the engine counted, over one run: they must agree exactly."""

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, draft_counts
from app.domain.evidence import RunEvidence
from app.domain.latency import output_tokens

PROMPT_TOKENS = "prompt_tokens"
GENERATION_TOKENS = "generation_tokens"
DRAFTS = "drafts"
DRAFT_TOKENS = "draft_tokens"
ACCEPTED_TOKENS = "accepted_tokens"
ACCEPTED_AT = "accepted_tokens_at_position_{}"


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


def reconcile(run: RunEvidence, *, counts_per_request: bool = True) -> tuple[Reconciliation, ...]:
    """Compare the requests' own sums with the engine's counters, exactly.

    ``generation_tokens`` and the accepted count include tokens cut off by the end of the output on both sides.
    """
    if run.counters is None:
        return ()
    sums = {
        PROMPT_TOKENS: (sum(o.prompt_tokens or 0 for o in run.observations), run.counters.prompt_tokens),
        GENERATION_TOKENS: (sum(map(output_tokens, run.observations)), run.counters.generation_tokens),
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
    totals = {
        DRAFTS: (counts.drafts, counters.spec_decode_num_drafts),
        DRAFT_TOKENS: (counts.drafted, counters.spec_decode_num_draft_tokens),
        ACCEPTED_TOKENS: (counts.accepted, counters.spec_decode_num_accepted_tokens),
    }
    return totals | _position_sums(run, counters.spec_decode_num_accepted_tokens_per_pos or ())


def _position_sums(run: RunEvidence, counted_at: tuple[int, ...]) -> dict[str, tuple[int, int | None]]:
    """Steps whose accepted prefix is longer than the position, where every response lists its steps."""
    told = [o.speculation for o in run.observations if o.speculation is not None]
    if any(len(t.per_step_accepted) != t.num_spec_steps for t in told):
        return {}
    accepted = [count for t in told for count in t.per_step_accepted]
    return {
        ACCEPTED_AT.format(position): (sum(count > position for count in accepted), counted)
        for position, counted in enumerate(counted_at)
    }
