"""Small evidence for exports, and arbitrary observations for their round trips."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from app.domain.evidence import (
    CounterDeltas,
    ExperimentEvidence,
    Failure,
    RequestLabels,
    RunEvidence,
    SessionEvidence,
)
from app.domain.lifecycle import RunState, SessionState
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.vocabulary import FailureClass, Outcome
from app.interop.exports.encoder import encode
from app.interop.exports.formats import format_of
from app.interop.exports.outline import Outline, RunKey
from tests.factories import NGRAM, make_manifest, make_observation

INT64 = st.integers(-(2**63), 2**63 - 1)
TIME = st.integers(-(2**60), 2**60)
COUNT = st.integers(0, 2**31)
NUMBERS = st.lists(INT64, max_size=4).map(tuple)
ANY_TEXT = st.text(max_size=12)

speculations = st.builds(
    SpeculationCounts,
    num_spec_steps=COUNT,
    num_draft_tokens=COUNT,
    num_accepted_draft_tokens=COUNT,
    acceptance_histogram=NUMBERS,
    per_step_accepted=NUMBERS,
    per_step_drafted=NUMBERS,
)
observations = st.builds(
    RequestObservation,
    request_id=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
    outcome=st.sampled_from(Outcome),
    due_ns=TIME,
    sent_ns=st.none() | TIME,
    first_byte_ns=st.none() | TIME,
    end_ns=st.none() | TIME,
    chunk_ns=st.lists(TIME, max_size=4).map(tuple),
    chunk_tokens=NUMBERS,
    token_ids=NUMBERS,
    text=ANY_TEXT,
    reasoning=ANY_TEXT,
    tool_calls=ANY_TEXT,
    logprobs=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(tuple),
    finish_reason=st.none() | ANY_TEXT,
    prompt_tokens=st.none() | COUNT,
    completion_tokens=st.none() | COUNT,
    cached_tokens=st.none() | COUNT,
    queue_time_ns=st.none() | INT64,
    speculation=st.none() | speculations,
    http_status=st.none() | st.integers(100, 599),
    error=st.none() | ANY_TEXT,
)
"""Anything that the types and 64 bits allow, however impossible; times so that their differences fit too."""

COUNTERS = CounterDeltas(
    prompt_tokens=6,
    generation_tokens=8,
    request_success=2,
    num_preemptions=0,
    spec_decode_num_drafts=4,
    spec_decode_num_draft_tokens=16,
    spec_decode_num_accepted_tokens=5,
    spec_decode_num_accepted_tokens_per_pos=(4, 1, 0, 0),
)
LATE = Failure(failure_class=FailureClass.GENERATOR_LIMITED, message="the client sent late")


def make_run(seen: Sequence[RequestObservation], **fields: Any) -> RunEvidence:
    """A counted run of ``ngram-k4``."""
    place = {"block": 0, "arm": NGRAM["name"], "workload": "tasks", "load": "low"}
    return RunEvidence.model_validate(
        {**place, "state": RunState.SUCCEEDED, "observations": tuple(seen), "counters": COUNTERS, **fields}
    )


def make_evidence(*runs: RunEvidence, **manifest: Any) -> ExperimentEvidence:
    """Evidence of one complete block with these runs; the labels are of the factory's trace."""
    chosen = make_manifest(**{"blocks": 1, **manifest})
    sessions = tuple(
        SessionEvidence(block=0, arm=arm.name, position=i, state=SessionState.SUCCEEDED, argv=("vllm", "serve"))
        for i, arm in enumerate(chosen.arms)
    )
    labels = tuple(
        RequestLabels(request_id=f"tasks-low-{i}", load="low", strata={"task": "copy", "length": f"{i}k"})
        for i in range(2)
    )
    return ExperimentEvidence(
        manifest=chosen, labels={"tasks": labels}, content_valid={"tasks": True}, sessions=sessions, runs=runs
    )


def two_requests() -> tuple[RequestObservation, ...]:
    """One served, one refused before it was sent."""
    refused = make_observation(
        "tasks-low-1",
        outcome="not_sent",
        due_ns=250_000_000,
        sent_ns=None,
        first_byte_ns=None,
        end_ns=None,
        chunk_ns=(),
        chunk_tokens=(),
        token_ids=(),
        text="",
        finish_reason=None,
        completion_tokens=None,
        prompt_tokens=None,
        speculation=None,
        http_status=None,
        error="=HYPERLINK(0)",
    )
    return make_observation("tasks-low-0"), refused


def small_evidence() -> ExperimentEvidence:
    """A counted run, and the attempt before it, which was void."""
    counted = make_run(two_requests(), attempt=2)
    void = make_run(two_requests()[:1], attempt=1, state=RunState.FAILED, failure=LATE)
    return make_evidence(void, counted)


def exported(evidence: ExperimentEvidence, name: str, key: RunKey | None = None) -> bytes:
    """The whole export."""
    outline = Outline(evidence)
    chosen = format_of(name, one_run=key is not None)
    return b"".join(encode(chosen.encoder(outline), outline.chosen(iter(evidence.runs), key)))
