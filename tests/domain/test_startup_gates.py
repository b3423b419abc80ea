"""Servers that did otherwise than asked while starting: each is named, with the blocks and the line that says it."""

from typing import Any

import pytest

from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence
from app.domain.report import build_report
from app.domain.startup import CanaryFacts, StartupWarning, WarningEffect
from app.domain.startup_gates import session_problems
from app.domain.vocabulary import VerdictWord
from tests.domain.evidence_factory import (
    Dials,
    make_evidence,
    make_manifest,
    make_session,
    manifest_document,
    reasons,
    replace_session,
)

DRAFT = f"local:tiny-draft@sha256:{'d' * 64}"
LOW = Condition("ngram", "copy", "low")
REPLACED = StartupWarning(
    name="runner_replaced",
    effect=WarningEffect.FAILS_PREFLIGHT,
    reason="the model runner is pinned",
    line="Model Runner V2 requires Triton; using the V1 model runner instead.",
)
NOTICE = REPLACED.model_copy(update={"name": "sampling_limited", "effect": WarningEffect.NOTICE})
LOSSY = REPLACED.model_copy(update={"name": "lossy_verification"})


def gates(evidence: ExperimentEvidence) -> tuple[str, ...]:
    return reasons(evidence, LOW)


def everywhere(evidence: ExperimentEvidence, arm: str, **changes: Any) -> ExperimentEvidence:
    """Each session of the arm changed."""
    for block in range(evidence.manifest.blocks):
        evidence = replace_session(evidence, arm=arm, block=block, **changes)
    return evidence


@pytest.mark.parametrize("arm", ["ngram", "target-only"])
def test_a_failing_warning_makes_the_arm_invalid_and_is_quoted(arm: str) -> None:
    evidence = replace_session(make_evidence(), arm=arm, block=1, warnings=(REPLACED, NOTICE))
    assert gates(evidence) == (f"block 2: {arm} warned (runner_replaced), which fails preflight: {REPLACED.line}",)
    assert {v.word for v in build_report(evidence).verdicts} == {VerdictWord.INVALID}


def test_a_warning_of_every_block_is_told_once() -> None:
    told = gates(everywhere(make_evidence(), "ngram", warnings=(REPLACED,)))
    assert [words.partition(":")[0] for words in told] == ["blocks 1, 2, 3, 4, 5"]


def test_a_notice_breaks_no_gate_and_is_shown() -> None:
    evidence = everywhere(make_evidence(), "ngram", warnings=(NOTICE,))
    assert gates(evidence) == ()
    assert NOTICE in [w for s in build_report(evidence).sessions for w in s.warnings]


def test_lossy_verification_is_what_overhead_profiling_asks_for() -> None:
    assert gates(replace_session(make_evidence(), arm="ngram", block=0, warnings=(LOSSY,)))
    profiling = make_evidence(Dials(manifest=make_manifest(purpose="overhead_profiling")))
    assert gates(replace_session(profiling, arm="ngram", block=0, warnings=(LOSSY,))) == ()


@pytest.mark.parametrize(
    ("arm", "resolved", "words"),
    [
        ("ngram", {"speculative_config.method": "suffix"}, "ngram resolved method suffix, asked for ngram"),
        (
            "ngram",
            {"speculative_config.num_speculative_tokens": "2"},
            "ngram resolved 2 speculative tokens, asked for 4",
        ),
        ("target-only", {"speculative_config.method": "eagle3"}, "target-only resolved speculation by itself: eagle3"),
        ("target-only", {"speculative_config": "x"}, "target-only resolved speculation by itself: x"),
    ],
)
def test_speculation_must_be_resolved_as_asked(arm: str, resolved: dict[str, str], words: str) -> None:
    evidence = make_evidence()
    session = next(s for s in evidence.sessions if (s.arm, s.block) == (arm, 0))
    changed = replace_session(evidence, arm=arm, block=0, resolved_config={**session.resolved_config, **resolved})
    assert gates(changed) == (f"block 1: {words}",)


def test_a_configuration_that_states_no_method_is_not_the_arms() -> None:
    evidence = replace_session(
        make_evidence(), arm="ngram", block=0, resolved_config={"model_config.dtype": "torch.bfloat16"}
    )
    assert gates(evidence) == (
        "block 1: ngram resolved method none, asked for ngram",
        "block 1: ngram resolved none speculative tokens, asked for 4",
    )


def test_the_logs_name_of_k_counts_too() -> None:
    arm = make_manifest().arms[1]
    logged = {"speculative_config.method": "ngram", "speculative_config.num_spec_tokens": "4"}
    assert list(session_problems(make_manifest(), arm, make_session(0, "ngram", 1, resolved_config=logged))) == []


def test_target_only_must_expose_no_speculation() -> None:
    evidence = replace_session(
        make_evidence(), arm="target-only", block=0, canary=CanaryFacts(exposes_speculation=True, drafted=0)
    )
    assert gates(evidence) == ("block 1: target-only exposes speculative counters",)


def test_an_arm_must_expose_speculation() -> None:
    evidence = replace_session(make_evidence(), arm="ngram", block=0, canary=CanaryFacts(exposes_speculation=False))
    assert gates(evidence) == ("block 1: ngram exposes no speculative counters after the canary",)


@pytest.mark.parametrize(
    ("speculation", "broken"),
    [
        ({"method": "ngram", "num_speculative_tokens": 4}, False),
        ({"method": "suffix", "num_speculative_tokens": 4}, False),
        ({"method": "draft_model", "num_speculative_tokens": 4}, True),
        ({"method": "eagle", "num_speculative_tokens": 4}, True),
        (
            {
                "method": "draft_model",
                "num_speculative_tokens": 4,
                "num_speculative_tokens_per_batch_size": [[1, 1, 0], [2, 8, 4]],
            },
            False,
        ),
        ({"method": "draft_model", "num_speculative_tokens": 4, "max_model_len": 16}, False),
    ],
)
def test_only_methods_that_draft_at_every_step_must_draft_on_the_canary(
    speculation: dict[str, Any], broken: bool
) -> None:
    with_draft = speculation["method"] in {"draft_model", "eagle"}
    arm = {"name": "arm", "speculation": speculation, "draft_or_speculator": DRAFT if with_draft else "none"}
    manifest = make_manifest(arms=[manifest_document()["arms"][0], arm])
    method = str(speculation["method"])
    session = make_session(
        0,
        "arm",
        1,
        resolved_config={"speculative_config.method": method, "speculative_config.num_speculative_tokens": "4"},
        canary=CanaryFacts(exposes_speculation=True, drafted=0),
    )
    words = [f"arm drafted nothing on the canary, although {method} drafts at every step"] if broken else []
    assert list(session_problems(manifest, manifest.arms[1], session)) == words


def test_a_server_that_never_was_ready_has_its_failure_and_no_more() -> None:
    session = make_session(0, "ngram", 1, startup_ns=None, warnings=(REPLACED,), resolved_config={})
    assert list(session_problems(make_manifest(), make_manifest().arms[1], session)) == []


def test_what_nobody_looked_at_is_said() -> None:
    assert any("without a look at their counters" in words for words in build_report(make_evidence()).not_shown)
    seen = everywhere(make_evidence(), "ngram", canary=CanaryFacts(exposes_speculation=True, drafted=8))
    seen = everywhere(seen, "target-only", canary=CanaryFacts(exposes_speculation=False))
    assert not any("without a look at their counters" in words for words in build_report(seen).not_shown)
