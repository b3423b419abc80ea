from typing import Any

import pytest

from app.domain.condition import Condition
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.evidence import ExperimentEvidence
from app.domain.gates import reconcile_all
from app.domain.lifecycle import RunState, SessionState
from app.domain.observation import RequestObservation
from app.domain.pairing import complete_blocks
from app.domain.reconciliation import reconcile
from app.domain.resolution import config_differences, unlike_configurations
from app.domain.startup import ConfigSource
from app.domain.vocabulary import NS_PER_MS, Outcome
from tests.domain.evidence_factory import (
    STARTUP_FAILED,
    Dials,
    find_run,
    make_evidence,
    make_manifest,
    manifest_document,
    reasons,
    replace_run,
    replace_session,
)

LOW = Condition("ngram", "copy", "low")
LOGGED = {"max_seq_len": "512", "speculative_config.method": "ngram", "speculative_config.num_spec_tokens": "4"}
WHERE: dict[str, Any] = {"arm": "ngram", "block": 2, "load": "low"}


def gates(evidence: ExperimentEvidence, condition: Condition = LOW) -> tuple[str, ...]:
    """The broken gates of one condition."""
    return reasons(evidence, condition)


def with_first(evidence: ExperimentEvidence, count: int = 1, **changes: object) -> ExperimentEvidence:
    """The first ``count`` requests of one run changed."""
    run = find_run(evidence, **WHERE)
    changed = tuple(
        RequestObservation.model_validate({**o.model_dump(), **changes}) if i < count else o
        for i, o in enumerate(run.observations)
    )
    return replace_run(evidence, **WHERE, observations=changed)


def counters(evidence: ExperimentEvidence, **changes: object) -> ExperimentEvidence:
    """One run's counters changed."""
    run = find_run(evidence, **WHERE)
    assert run.counters is not None
    return replace_run(evidence, **WHERE, counters=run.counters.model_copy(update=changes))


def test_sound_evidence_breaks_no_gate() -> None:
    evidence = make_evidence()
    assert gates(evidence) == ()
    assert gates(evidence, Condition("ngram", "copy", "high")) == ()


@pytest.mark.parametrize(
    ("counter", "quantity"),
    [
        ("spec_decode_num_drafts", "drafts"),
        ("spec_decode_num_draft_tokens", "draft_tokens"),
        ("spec_decode_num_accepted_tokens", "accepted_tokens"),
        ("prompt_tokens", "prompt_tokens"),
        ("generation_tokens", "generation_tokens"),
    ],
)
def test_counters_off_by_one_are_found_with_their_residual(counter: str, quantity: str) -> None:
    evidence = make_evidence()
    run = find_run(evidence, **WHERE)
    off = counters(evidence, **{counter: getattr(run.counters, counter) + 1})
    assert any(words.startswith(f"block 3, ngram: {quantity}: ") and "residual -1" in words for words in gates(off))
    assert gates(off, Condition("ngram", "copy", "high")) == ()


def test_reconciliation_lines_of_a_sound_run_have_no_residual() -> None:
    lines = reconcile(find_run(make_evidence(), **WHERE))
    assert [line.quantity for line in lines] == [
        "prompt_tokens",
        "generation_tokens",
        "drafts",
        "draft_tokens",
        "accepted_tokens",
        *(f"accepted_tokens_at_position_{position}" for position in range(4)),
    ]
    assert all(line.residual == 0 for line in lines)
    assert [line.counter_delta > 0 for line in lines] == [*(True,) * 8, False]


def test_the_baseline_has_no_speculative_lines() -> None:
    lines = reconcile(find_run(make_evidence(), arm="target-only", block=0, load="low"))
    assert [line.quantity for line in lines] == ["prompt_tokens", "generation_tokens"]


def test_missing_counters_are_named() -> None:
    assert gates(replace_run(make_evidence(), **WHERE, counters=None)) == (
        "block 3, ngram: the engine's counters were not recorded",
    )


def test_an_arm_that_drafts_nothing_is_not_that_arm() -> None:
    idle = with_first(make_evidence(), count=12, speculation=None)
    silent = counters(
        idle,
        spec_decode_num_drafts=0,
        spec_decode_num_draft_tokens=0,
        spec_decode_num_accepted_tokens=0,
        spec_decode_num_accepted_tokens_per_pos=(0, 0, 0, 0),
    )
    assert gates(silent) == ("block 3, ngram: it drafted nothing",)
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos")
    absent = counters(idle, **dict.fromkeys(f"spec_decode_{name}" for name in names))
    assert gates(absent) == ("block 3, ngram: it exposes no speculative counters",)


def test_positions_that_rise_break_an_identity() -> None:
    off = counters(make_evidence(), spec_decode_num_accepted_tokens_per_pos=(59, 60, 61, 0))
    assert "block 3, ngram: engine counters: accepted by position rises" in gates(off)


def test_a_late_client_voids_the_run() -> None:
    late = with_first(make_evidence(), sent_ns=6 * NS_PER_MS)
    assert len(gates(late)) == 1
    assert "the client sent late" in gates(late)[0]


def test_lateness_may_reach_two_percent_of_a_long_ttft() -> None:
    evidence = make_evidence()
    slow = find_run(evidence, **WHERE)
    shifted = tuple(
        o.model_copy(
            update={
                "chunk_ns": tuple(t + 400 * NS_PER_MS for t in o.chunk_ns),
                "end_ns": (o.end_ns or 0) + 400 * NS_PER_MS,
                "sent_ns": o.due_ns + 7 * NS_PER_MS,
            }
        )
        for o in slow.observations
    )
    assert gates(replace_run(evidence, **WHERE, observations=shifted)) == ()


def resolving(arm: str = "ngram", **changes: str) -> ExperimentEvidence:
    """One session of ``arm`` resolved further or other settings, named with __ for the dot."""
    evidence = make_evidence()
    session = next(s for s in evidence.sessions if (s.arm, s.block) == (arm, 1))
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return replace_session(evidence, arm=arm, block=1, resolved_config={**session.resolved_config, **changed})


def test_a_difference_in_configuration_is_shown_with_both_values() -> None:
    evidence = resolving(model_config__dtype="torch.float32")
    differences = config_differences(evidence, complete_blocks(evidence))
    assert differences == {"ngram": {"model_config.dtype": ("torch.bfloat16", "torch.float32")}}
    assert any("model_config.dtype" in words for words in gates(evidence))


def test_what_the_engine_chose_for_a_target_as_deployed_is_shown_and_breaks_nothing() -> None:
    deployed = {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}
    evidence = make_evidence(Dials(manifest=make_manifest(arms=[*manifest_document()["arms"], deployed])))
    evidence = replace_session(evidence, arm="deployed", block=1, resolved_config={"scheduler.async": "True"})
    blocks = complete_blocks(evidence)
    assert "scheduler.async" in config_differences(evidence, blocks)["deployed"]
    assert not [*unlike_configurations(evidence, blocks, "deployed")]


@pytest.mark.parametrize(
    "field",
    [
        "speculative_config__draft_model_config__max_model_len",
        "cache_config__num_gpu_blocks",
        "observability_config__per_request_spec_decode_metrics",
    ],
)
def test_consequences_of_speculation_may_differ(field: str) -> None:
    assert gates(resolving(**{field: "x"})) == ()


def test_an_unrecorded_configuration_cannot_be_compared() -> None:
    evidence = replace_session(make_evidence(), arm="ngram", block=1, resolved_config={})
    assert gates(evidence) == ("block 2: the resolved configuration of ngram was not recorded",)


def test_a_failed_start_is_evidence_against_its_arm_only() -> None:
    evidence = replace_session(make_evidence(), arm="ngram", block=1, state=SessionState.FAILED, failure=STARTUP_FAILED)
    evidence = evidence.model_copy(update={"runs": tuple(r for r in evidence.runs if (r.arm, r.block) != ("ngram", 1))})
    assert complete_blocks(evidence).indices == (0, 1, 2, 3, 4)
    assert gates(evidence) == (
        "block 2: the session of ngram did not complete (CONFIG: Unsupported speculative method: 'mtp')",
    )


def test_a_server_that_dies_later_leaves_the_runs_before_it_valid() -> None:
    evidence = replace_session(make_evidence(), arm="ngram", block=1, state=SessionState.FAILED, failure=STARTUP_FAILED)
    evidence = replace_run(
        evidence, arm="ngram", block=1, load="high", state=RunState.FAILED, failure=STARTUP_FAILED, observations=()
    )
    assert gates(evidence) == ()
    assert "the run of ngram did not complete" in gates(evidence, Condition("ngram", "copy", "high"))[0]


def test_a_block_under_way_is_not_used() -> None:
    evidence = replace_session(make_evidence(), arm="ngram", block=4, state=SessionState.MEASURING)
    assert complete_blocks(evidence).indices == (0, 1, 2, 3)


def test_failed_requests_above_one_percent_break_the_gate() -> None:
    failed = with_first(make_evidence(), outcome=Outcome.HTTP_ERROR)
    assert "block 3, ngram: 1 of 12 requests failed, more than 1%" in gates(failed)


def test_a_request_missing_from_a_run_is_found() -> None:
    evidence = make_evidence()
    run = find_run(evidence, **WHERE)
    short = replace_run(evidence, **WHERE, observations=run.observations[1:])
    assert any("11 observations do not match the trace's 12 requests" in words for words in gates(short))


def test_invented_prompts_cannot_speak_of_acceptance() -> None:
    evidence = make_evidence().model_copy(update={"content_valid": {"copy": False}})
    assert "not real text" in gates(evidence)[0]


def test_a_cache_that_should_be_off_is_found() -> None:
    assert "prefix cache" in gates(with_first(make_evidence(), cached_tokens=16))[0]


def test_cache_hits_must_agree_between_arms_where_the_cache_is_on() -> None:
    serving = {**manifest_document()["serving"], "prefix_caching": True}
    evidence = make_evidence(Dials(manifest=make_manifest(serving=serving)))
    assert gates(evidence) == ()
    assert gates(with_first(evidence, cached_tokens=16)) == (
        "block 3, ngram: 1 requests differ in cached prompt tokens between the arms, by 16 tokens together",
    )


def test_speculation_in_target_only_is_found() -> None:
    evidence = make_evidence()
    donor = find_run(evidence, **WHERE).observations[0].speculation
    run = find_run(evidence, arm="target-only", block=2, load="low")
    odd = tuple(o.model_copy(update={"speculation": donor}) for o in run.observations)
    spoiled = replace_run(evidence, arm="target-only", block=2, load="low", observations=odd)
    assert "block 3, target-only: target-only reported speculation" in gates(spoiled)


@pytest.mark.parametrize(
    ("field", "target", "ours"),
    [
        ("model_config.max_model_len", "1024", "512"),
        ("cache_config.enable_prefix_caching", "false", "true"),
        ("env.VLLM_USE_V2_MODEL_RUNNER", "false", "true"),
        ("engine.model_runner", "V1", "V2"),
        ("compilation_config.cudagraph_mode", "FULL", "PIECEWISE"),
    ],
)
def test_a_confounded_pair_is_named_by_its_setting(field: str, target: str, ours: str) -> None:
    evidence = make_evidence()
    for arm, value in (("target-only", target), ("ngram", ours)):
        session = next(s for s in evidence.sessions if (s.arm, s.block) == (arm, 1))
        evidence = replace_session(
            evidence, arm=arm, block=1, resolved_config={**session.resolved_config, field: value}
        )
    assert gates(evidence) == (f"resolved configuration differs in {field}: target-only {target}, ngram {ours}",)


def test_configurations_from_two_sources_are_not_compared_but_refused() -> None:
    evidence = replace_session(
        make_evidence(), arm="ngram", block=1, config_source=ConfigSource.LOG, resolved_config=LOGGED
    )
    assert gates(evidence) == (
        (
            "block 2: the configuration of target-only was read from server_info, that of ngram from log, "
            "which name settings differently"
        ),
    )


def test_configurations_from_logs_are_compared_with_each_other() -> None:
    evidence = replace_session(
        make_evidence(), arm="ngram", block=1, config_source=ConfigSource.LOG, resolved_config=LOGGED
    )
    theirs = {"max_seq_len": "1024", "speculative_config": "None"}
    evidence = replace_session(
        evidence, arm="target-only", block=1, config_source=ConfigSource.LOG, resolved_config=theirs
    )
    assert gates(evidence) == ("resolved configuration differs in max_seq_len: target-only 1024, ngram 512",)


def test_without_counts_per_request_only_speculation_is_not_reconciled() -> None:
    blind = with_first(make_evidence(), count=12, speculation=None)
    assert any("draft_tokens" in words for words in gates(blind))
    blind = replace_session(blind, arm="ngram", block=2, flags_left_out={PER_REQUEST_SPECULATION_FLAG: "no counts"})
    assert gates(blind) == ()
    run = find_run(blind, **WHERE)
    assert run.counters is not None
    off = counters(blind, prompt_tokens=run.counters.prompt_tokens + 1)
    assert any("prompt_tokens" in words for words in gates(off))
    assert {line.quantity for line in reconcile_all(blind) if (line.arm, line.block) == ("ngram", 2)} == {
        "prompt_tokens",
        "generation_tokens",
    }


@pytest.mark.parametrize("outcome", [Outcome.DEADLINE_MISS, Outcome.STALL])
def test_a_planned_deadline_may_also_find_an_answer_that_stands_still(outcome: Outcome) -> None:
    evidence = make_evidence()
    labels = tuple(
        label.model_copy(update={"planned_end": "deadline" if label.request_id == "low-0" else None})
        for label in evidence.labels["copy"]
    )
    late = with_first(evidence, outcome=outcome, completion_tokens=1, speculation=None)
    assert any("1 of 12 requests failed" in words for words in gates(late))
    assert gates(late.model_copy(update={"labels": {"copy": labels}})) == ()


def test_an_end_that_the_trace_plans_is_no_failure() -> None:
    evidence = make_evidence()
    labels = tuple(
        label.model_copy(update={"planned_end": "cancel" if label.request_id == "low-0" else None})
        for label in evidence.labels["copy"]
    )
    canceled = with_first(evidence, outcome=Outcome.CLIENT_CANCEL, completion_tokens=1, speculation=None)
    assert any("1 of 12 requests failed" in words for words in gates(canceled))
    planned = canceled.model_copy(update={"labels": {"copy": labels}})
    assert gates(planned) == ()
    run = find_run(planned, **WHERE)
    assert run.counters is not None
    unseen = counters(planned, prompt_tokens=run.counters.prompt_tokens - 1)
    assert any("prompt_tokens" in words and "residual 1" in words for words in gates(unseen))
