"""What the client saw of one request: times, tokens and how it ended.

All times are integer monotonic nanoseconds counted from the start of the run's replay,
so ``due_ns`` equals the trace's offset and latencies are differences.
"""

from pydantic import BaseModel, ConfigDict

from app.domain.vocabulary import Outcome


class SpeculationCounts(BaseModel):
    """vLLM's ``metrics.speculative_decoding`` of one request, its own names kept.

    Steps without a draft are absent from the arrays, as in the engine's counters.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_spec_steps: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    acceptance_histogram: tuple[int, ...] = ()
    per_step_accepted: tuple[int, ...] = ()
    per_step_drafted: tuple[int, ...] = ()


class RequestObservation(BaseModel):
    """One offered request. Absent times are ``None``, never zero.

    ``chunk_ns[i]`` is when the i-th chunk with tokens was received and ``chunk_tokens[i]`` how
    many tokens it carried; ``sum(chunk_tokens) == len(token_ids)``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_id: str
    outcome: Outcome
    due_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    end_ns: int | None = None
    """When the stream's last byte (or its failure) was seen."""
    chunk_ns: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    text: str = ""
    reasoning: str = ""
    """What a chat answer said before its text, where the engine tells them apart."""
    tool_calls: str = ""
    """Canonical JSON of the assembled calls of a chat answer; empty without any."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithm of each sampled token's probability, where it was asked for."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    queue_time_ns: int | None = None
    speculation: SpeculationCounts | None = None
    http_status: int | None = None
    error: str | None = None
