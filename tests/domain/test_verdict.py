"""Known truth in, the right word out."""

import json
import random
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.finding import find
from app.domain.report import Report, Verdict, build_report
from app.domain.vocabulary import NS_PER_MS, VerdictWord
from tests.domain.evidence_factory import (
    Dials,
    find_run,
    make_evidence,
    make_manifest,
    manifest_document,
    replace_run,
    replace_session,
)

W = VerdictWord
RULE: dict[str, Any] = {"delta": 0.05, "confidence": 0.95, "family": 4}
FASTER = Dials(speedup={"low": 1.3, "high": 1.3})


def low(report: Report) -> Verdict:
    """The verdict at the low load."""
    return next(v for v in report.verdicts if v.load == "low")


@pytest.mark.parametrize(
    ("dials", "word"),
    [
        (FASTER, W.HELPS),
        (Dials(speedup={"low": 1 / 1.3}), W.HURTS),
        (Dials(), W.EQUIVALENT),
        (Dials(block_noise=0.15), W.INCONCLUSIVE),
    ],
    ids=["faster", "slower", "same", "noisy"],
)
def test_the_truth_is_found(dials: Dials, word: VerdictWord) -> None:
    verdict = low(build_report(make_evidence(dials)))
    assert verdict.word is word
    assert verdict.ratio is not None
    assert verdict.ratio.low is not None
    assert verdict.ratio.high is not None
    assert verdict.ratio.low <= dials.speedup.get("low", 1.0) <= verdict.ratio.high
    assert not verdict.exploratory


def test_an_undecided_verdict_says_how_many_blocks_it_needs() -> None:
    verdict = low(build_report(make_evidence(Dials(block_noise=0.1))))
    assert verdict.word is W.INCONCLUSIVE
    assert verdict.blocks_needed is not None
    assert verdict.blocks_needed > 5
    assert f"about {verdict.blocks_needed} blocks are needed" in verdict.sentence


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        (
            Dials(speedup={"low": 1.05, "high": 1.05}, block_noise=0.002),
            "the effect lies on the margin (0.952 or 1.050",
        ),
        (Dials(speedup={"low": 1.05, "high": 1.05}, block_noise=2.0), "the spread between blocks is too large"),
    ],
)
def test_what_no_number_of_blocks_decides_says_which_of_the_two_it_is(dials: Dials, words: str) -> None:
    verdict = low(build_report(make_evidence(dials)))
    assert verdict.word is VerdictWord.INCONCLUSIVE
    assert any(words in reason for reason in verdict.reasons), verdict


def test_a_mismatch_takes_the_help_away() -> None:
    evidence = make_evidence(FASTER)
    run = find_run(evidence, arm="ngram", block=4, load="high")
    first, *rest = run.observations
    wrong = first.model_copy(update={"token_ids": (*first.token_ids[:-1], 12345)})
    report = build_report(replace_run(evidence, arm="ngram", block=4, load="high", observations=(wrong, *rest)))
    assert {v.word for v in report.verdicts} == {W.INVALID}
    assert "1 of 24 greedy answers of ngram differ" in low(report).sentence
    assert low(report).ratio is None
    assert report.recommendation.arm is None


def test_counters_off_by_one_make_it_invalid() -> None:
    evidence = make_evidence(FASTER)
    run = find_run(evidence, arm="ngram", block=0, load="low")
    assert run.counters is not None
    off = run.counters.model_copy(update={"spec_decode_num_accepted_tokens": 181})
    report = build_report(replace_run(evidence, arm="ngram", block=0, load="low", counters=off))
    assert low(report).word is W.INVALID
    assert any("residual -1" in reason for reason in low(report).reasons)
    assert report.verdicts[1].word is W.HELPS


def test_a_difference_in_configuration_makes_every_load_invalid() -> None:
    unlike = {"model_config.dtype": "torch.bfloat16", "scheduler_config.async_scheduling": "True"}
    report = build_report(replace_session(make_evidence(FASTER), arm="ngram", block=3, resolved_config=unlike))
    assert {v.word for v in report.verdicts} == {W.INVALID}
    assert report.config_differences == {"ngram": {"scheduler_config.async_scheduling": (None, "True")}}


def test_a_late_client_makes_it_invalid_even_in_the_baseline() -> None:
    evidence = make_evidence(FASTER)
    run = find_run(evidence, arm="target-only", block=1, load="low")
    late = tuple(o.model_copy(update={"sent_ns": o.due_ns + 9 * NS_PER_MS}) for o in run.observations)
    report = build_report(replace_run(evidence, arm="target-only", block=1, load="low", observations=late))
    assert low(report).word is W.INVALID
    assert "the client sent late" in low(report).sentence


def test_below_two_blocks_nothing_is_decided() -> None:
    report = build_report(make_evidence(Dials(speedup={"low": 3.0}, blocks_run=1)))
    assert low(report).word is W.INCONCLUSIVE
    assert low(report).exploratory
    assert "at least 2 are needed" in low(report).sentence


def test_below_five_blocks_a_word_is_marked_exploratory() -> None:
    dials = Dials(speedup={"low": 1.3}, block_noise=0.0, manifest=make_manifest(blocks=2))
    verdict = low(build_report(make_evidence(dials)))
    assert verdict.word is W.HELPS
    assert verdict.exploratory
    assert any(reason.startswith("exploratory") for reason in verdict.reasons)


def test_sampled_outputs_are_said_not_to_be_compared() -> None:
    sampled = make_manifest(sampling={"temperature": 0.7})
    verdict = low(build_report(make_evidence(Dials(speedup={"low": 1.3}, manifest=sampled))))
    assert any("sampled" in reason for reason in verdict.reasons)


def test_a_gain_smaller_than_the_margin_is_called_positive_not_helpful() -> None:
    verdict = low(build_report(make_evidence(Dials(speedup={"low": 1.05}, block_noise=0.01))))
    assert verdict.word is W.INCONCLUSIVE
    assert "positive, but a gain below 5% is not excluded" in verdict.sentence


def test_false_alarms_of_an_a_a_experiment_are_rare() -> None:
    """Both arms the same, noise of 8% per session: HELPS or HURTS must come in fewer than 5% of experiments."""
    rng = random.Random(20)
    words = [
        find([rng.gauss(0, 0.08) - rng.gauss(0, 0.08) for _ in range(5)], delta=0.05, confidence=0.95, family=1).word
        for _ in range(400)
    ]
    assert sum(word in {W.HELPS, W.HURTS} for word in words) / len(words) < 0.05
    assert W.INCONCLUSIVE in words


def test_whole_a_a_experiments_claim_nothing() -> None:
    reports = [build_report(make_evidence(Dials(block_noise=0.05, seed=seed, requests=4))) for seed in range(8)]
    assert {v.word for report in reports for v in report.verdicts} <= {W.EQUIVALENT, W.INCONCLUSIVE}


@given(st.lists(st.floats(-0.6, 0.6), min_size=2, max_size=10))
def test_swapping_the_arms_swaps_the_word(log_ratios: list[float]) -> None:
    opposite = {W.HELPS: W.HURTS, W.HURTS: W.HELPS}
    word = find(log_ratios, **RULE).word
    assert find([-v for v in log_ratios], **RULE).word is opposite.get(word, word)


@given(st.lists(st.floats(-0.6, 0.6), min_size=2, max_size=10), st.integers(1, 5))
def test_a_larger_family_never_makes_a_claim_stronger(log_ratios: list[float], family: int) -> None:
    small = find(log_ratios, delta=0.05, confidence=0.95, family=1).word
    large = find(log_ratios, delta=0.05, confidence=0.95, family=1 + family).word
    assert large in {small, W.INCONCLUSIVE}


def test_the_recommendation_names_an_arm_that_helps_and_hurts_nowhere() -> None:
    answer = build_report(make_evidence(FASTER)).recommendation
    assert answer.arm == "ngram"
    flag, _, quoted = answer.flags[-1].partition(" ")
    assert flag == "--speculative-config"
    (value,) = shlex.split(quoted)
    assert json.loads(value) == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "rejection_sample_method": "standard",
    }
    assert "--no-enable-prefix-caching" in answer.flags
    assert "nothing about other workloads" in answer.scope


def test_the_recommendation_says_what_it_depends_on() -> None:
    answer = build_report(make_evidence(Dials(speedup={"low": 1.3, "high": 1 / 1.3}))).recommendation
    assert (answer.arm, answer.flags) == (None, ())
    assert answer.sentence == (
        "It depends: ngram helps on copy at low and hurts on copy at high. "
        "For the latency regime (low) alone ngram is right. For the serving regime (high) keep target-only."
    )
    assert [(one.regime, one.arm) for one in answer.by_regime] == [("latency", "ngram"), ("serving", None)]


def test_without_help_target_only_stays() -> None:
    assert build_report(make_evidence()).recommendation.sentence.startswith("Keep target-only")


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        (Dials(speedup={"low": 1.3, "high": 1.3}, blocks_run=4), "Interim"),
        (Dials(speedup={"low": 1.3, "high": 1.3}, block_noise=0, manifest=make_manifest(blocks=2)), "Exploratory"),
        (
            Dials(
                speedup={"low": 1.3},
                manifest=make_manifest(loads=manifest_document()["loads"][:1]),
            ),
            "the serving regime was not measured",
        ),
    ],
    ids=["interim", "exploratory", "one regime"],
)
def test_no_arm_is_named_before_it_may_be(dials: Dials, words: str) -> None:
    answer = build_report(make_evidence(dials)).recommendation
    assert answer.arm is None
    assert words in answer.sentence
    assert "So far ngram looks best" in answer.sentence
