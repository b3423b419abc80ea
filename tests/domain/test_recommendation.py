"""The overall answer weighs more than speed, and never says more than was confirmed."""

from typing import Any

import pytest

from app.domain.as_deployed import holds
from app.domain.evidence import ExperimentEvidence
from app.domain.manifest import Manifest
from app.domain.memory import MemoryBreakdown
from app.domain.pairing import complete_blocks
from app.domain.report import Report, build_report
from app.domain.startup import StartupWarning, WarningEffect
from app.domain.vocabulary import NS_PER_S, VerdictWord
from app.domain.weighing import Standing, Weighed, weigh
from tests.domain.evidence_factory import (
    Dials,
    find_run,
    make_evidence,
    make_manifest,
    make_observation,
    manifest_document,
    replace_run,
    replace_session,
)

DRAFT = f"local:tiny-draft@sha256:{'e' * 64}"
DRAFT_ARM: dict[str, Any] = {
    "name": "draft",
    "draft_or_speculator": DRAFT,
    "speculation": {"method": "draft_model", "num_speculative_tokens": 4},
}
DRAFTS = {
    "model_config.dtype": "torch.bfloat16",
    "speculative_config.method": "draft_model",
    "speculative_config.num_speculative_tokens": "4",
}
FASTER = {"low": 1.3, "high": 1.3}
FILES = MemoryBreakdown(
    rows=(),
    total_bytes=None,
    total_source="nothing",
    capacity_bytes=None,
    kv_cache_tokens=8_000,
    max_concurrency=None,
    draft_file_bytes=2_500_000,
)


def two_arms(**changes: Any) -> Manifest:
    return make_manifest(arms=[*manifest_document()["arms"], DRAFT_ARM], **changes)


def with_draft_costs(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """Each of the draft's servers starts 6 s later, and its cache is a fifth smaller."""
    for block in {s.block for s in evidence.sessions}:
        evidence = replace_session(
            evidence,
            arm="draft",
            block=block,
            startup_ns=(31 + block % 2) * NS_PER_S,
            memory={"kv_cache_tokens": "8,000"},
            memory_breakdown=FILES,
            resolved_config=DRAFTS,
        )
    return evidence


def report_of(**dials: Any) -> Report:
    """``dials`` over two arms that are faster than target-only at both loads."""
    stated: dict[str, Any] = {"speedup": FASTER, "manifest": two_arms(), **dials}
    return build_report(with_draft_costs(make_evidence(Dials(**stated))))


def standing(report: Report, arm: str) -> Weighed:
    return next(one for one in report.recommendation.weighed if one.arm == arm)


def test_of_two_arms_as_fast_as_each_other_the_lighter_is_taken() -> None:
    """The draft is measured to be a little faster, which its noise explains."""
    report = report_of(arm_speedup={"draft": 1.01}, block_noise=0.02)
    answer = report.recommendation
    assert answer.candidate == "ngram"
    assert standing(report, "ngram").standing is Standing.FIRST
    assert standing(report, "draft").standing is Standing.TIED
    assert "draft is as fast, and heavier." in answer.sentence
    against = standing(report, "draft").against_first
    assert against is not None
    assert against.low is not None
    assert against.high is not None
    assert against.value is not None
    assert against.low < 1 < against.value < against.high


def test_a_heavier_arm_is_taken_where_it_is_shown_to_be_faster() -> None:
    report = report_of(arm_speedup={"draft": 1.2})
    assert report.recommendation.candidate == "draft"
    assert standing(report, "ngram").standing is Standing.BEATEN
    assert "KV cache of 8,000 instead of 10,000 tokens (20.0% fewer: 2.0 requests" in report.recommendation.sentence
    assert "start-up +6.4 s" in report.recommendation.sentence
    assert "2.5 MB of draft to store" in report.recommendation.sentence
    assert "another checkpoint to pin" in report.recommendation.sentence


def test_the_best_of_several_is_named_and_not_recommended_before_fresh_blocks_confirm_it() -> None:
    answer = report_of().recommendation
    assert answer.arm is None
    assert answer.sentence.startswith("Confirm ngram before it is deployed: it helps on copy at low, copy at high")
    assert "picked out of 2 arms on the same blocks" in answer.sentence
    alone = build_report(make_evidence(Dials(speedup=FASTER))).recommendation
    assert (alone.arm, alone.candidate) == ("ngram", None)


def test_an_arm_declared_alone_is_confirmed_though_others_were_looked_at() -> None:
    manifest = two_arms(family={"comparisons": ["draft"]})
    report = report_of(manifest=manifest)
    assert report.recommendation.arm == "draft"
    assert standing(report, "ngram").standing is Standing.EXPLORATORY


def test_an_arm_that_helps_here_and_hurts_there_is_recommended_for_neither_alone() -> None:
    report = report_of(speedup={"low": 1.3, "high": 1 / 1.3})
    assert (report.recommendation.arm, report.recommendation.candidate) == (None, None)
    assert {one.standing for one in report.recommendation.weighed} == {Standing.MIXED}
    assert [(one.regime, one.arm) for one in report.recommendation.by_regime] == [
        ("latency", "ngram"),
        ("serving", None),
    ]
    assert "once fresh blocks confirm it" in report.recommendation.sentence


def test_a_rival_that_hurts_somewhere_is_named_with_the_place() -> None:
    evidence = with_draft_costs(make_evidence(Dials(speedup={"low": 1.3, "high": 1.0}, manifest=two_arms())))
    for run in [r for r in evidence.runs if (r.arm, r.load) == ("draft", "high")]:
        slower = make_evidence(Dials(speedup={"high": 1 / 1.3}, seed=9)).runs
        same = next(r for r in slower if (r.arm, r.block, r.load) == ("ngram", run.block, "high"))
        evidence = replace_run(
            evidence, arm="draft", block=run.block, load="high", observations=same.observations, counters=same.counters
        )
    answer = build_report(evidence).recommendation
    assert answer.candidate == "ngram"
    assert "draft is no alternative: it helps in places and hurts on copy at high." in answer.sentence


def test_an_invalid_arm_has_no_command_and_is_never_the_answer() -> None:
    evidence = with_draft_costs(make_evidence(Dials(speedup=FASTER, arm_speedup={"draft": 2.0}, manifest=two_arms())))
    run = find_run(evidence, arm="draft", block=4, load="high")
    first, *rest = run.observations
    wrong = first.model_copy(update={"token_ids": (*first.token_ids[:-1], 12345)})
    evidence = replace_run(evidence, arm="draft", block=4, load="high", observations=(wrong, *rest))
    report = build_report(evidence)
    assert report.recommendation.candidate == "ngram"
    assert standing(report, "draft").standing is Standing.INVALID
    assert standing(report, "draft").command == ""
    assert standing(report, "ngram").command


def test_a_stratum_that_seems_to_be_hurt_is_said() -> None:
    evidence = make_evidence(Dials(speedup={"low": 1.6, "high": 1.6}))
    for run in [r for r in evidence.runs if r.arm == "ngram" and r.load == "low"]:
        slow = next(
            r.observations
            for r in make_evidence(Dials(speedup={"low": 0.7})).runs
            if (r.arm, r.block, r.load) == ("ngram", run.block, "low")
        )
        # Every other request is of task=b; its median is the slow ones', that of all is between.
        mixed = tuple(slow[i] if i in {1, 3, 5, 7} else o for i, o in enumerate(run.observations))
        evidence = replace_run(evidence, arm="ngram", block=run.block, load="low", observations=mixed)
    report = build_report(evidence)
    assert report.recommendation.arm == "ngram"
    assert "it seems to hurt task=b of copy at low (exploratory)" in report.recommendation.sentence
    words = {(w.stratum, w.load): w.word for w in standing(report, "ngram").words}
    assert words["all", "low"] is VerdictWord.HELPS
    assert words["task=b", "low"] is VerdictWord.HURTS
    assert words["task=a", "low"] is VerdictWord.HELPS


def test_a_notice_of_the_arms_servers_alone_counts_as_complexity() -> None:
    line = "WARNING max_model_len of the draft is 512"
    notice = StartupWarning(name="x", effect=WarningEffect.NOTICE, reason="a draft is cut to 512 tokens", line=line)
    plain = make_evidence(Dials(speedup=FASTER))
    evidence = replace_session(plain, arm="ngram", block=0, warnings=(notice,))
    (weighed,) = build_report(evidence).recommendation.weighed
    assert [(n.logged, n.means) for n in weighed.burden.notices] == [(line, "a draft is cut to 512 tokens")]
    assert "a notice that only its servers log, which we read so: a draft is cut to 512 tokens" in weighed.sentence
    assert "servers say" not in weighed.sentence
    (without,) = build_report(plain).recommendation.weighed
    assert weighed.burden.weight > without.burden.weight
    everywhere = replace_session(evidence, arm="target-only", block=0, warnings=(notice,))
    assert build_report(everywhere).recommendation.weighed[0].burden.notices == ()


@pytest.mark.parametrize(
    ("method", "words"),
    [("ngram", "the engine refuses it with ngram"), ("draft_model", "as in every arm here; target-only could have it")],
)
def test_on_a_gpu_the_forced_engine_settings_are_part_of_the_price(method: str, words: str) -> None:
    arm = DRAFT_ARM if method == "draft_model" else manifest_document()["arms"][1]
    manifest = make_manifest(
        arms=[manifest_document()["arms"][0], {**arm, "name": "ngram"}],
        runtime=f"vllm 0.32.0 sha256:{'b' * 64}",
        hardware={"accelerator": "H200", "count": 1, "topology": "single"},
        software={"driver": "570", "cuda": "12.8", "os": "Debian 12", "kernel": "6.1"},
    )
    (weighed,) = build_report(make_evidence(Dials(speedup=FASTER, manifest=manifest))).recommendation.weighed
    assert any(words in one for one in weighed.burden.complexity)
    assert any("model runner V1" in one for one in weighed.burden.complexity)


def test_arms_that_lost_different_blocks_are_not_compared_block_by_block() -> None:
    """Of each one block has no ratio: as many are left, and not the same ones."""
    evidence = with_draft_costs(make_evidence(Dials(speedup=FASTER, manifest=two_arms())))
    report = build_report(evidence)
    left = {"ngram": slice(1, None), "draft": slice(None, -1)}
    weighed = weigh(
        evidence.manifest,
        report.verdicts,
        [c.model_copy(update={"block_ratios": c.block_ratios[left[c.arm]]}) for c in report.comparisons],
        {one.arm: one.burden for one in report.recommendation.weighed},
        complete_blocks(evidence),
    ).arms
    (other,) = (one for one in weighed if one.standing is not Standing.FIRST)
    assert other.standing is Standing.NOT_COMPARED
    assert other.against_first is not None
    assert other.against_first.value is None


DEPLOYED: dict[str, Any] = {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}


def against_deployed(low: float, high: float | None = None, *, spoiled: bool = False, serving: float = 1.3) -> Report:
    """Target-only as deployed is ``low`` and ``high`` times target-only's speed, with a wrong answer if so.

    Ngram is 1.3 times target-only's speed, and ``serving`` times at high.
    """
    manifest = make_manifest(arms=[*manifest_document()["arms"], DEPLOYED])
    evidence = make_evidence(Dials(speedup={**FASTER, "high": serving}, manifest=manifest))
    for session in [s for s in evidence.sessions if s.arm == "deployed"]:
        alone = {"model_config.dtype": "torch.bfloat16", "speculative_config": "null"}
        evidence = replace_session(evidence, arm="deployed", block=session.block, resolved_config=alone)
    for run in [r for r in evidence.runs if r.arm == "deployed"]:
        plain = find_run(evidence, arm="target-only", block=run.block, load=run.load)
        speed = low if run.load == "low" or high is None else high
        quick = tuple(make_observation(o.request_id, due_ns=o.due_ns, speed=speed) for o in plain.observations)
        evidence = replace_run(
            evidence, arm="deployed", block=run.block, load=run.load, observations=quick, counters=plain.counters
        )
    if spoiled:
        first, *rest = find_run(evidence, arm="deployed", block=0, load="low").observations
        wrong = first.model_copy(update={"token_ids": (*first.token_ids[:-1], 12345)})
        evidence = replace_run(evidence, arm="deployed", block=0, load="low", observations=(wrong, *rest))
    return build_report(evidence)


def words_against_deployed(report: Report) -> list[tuple[str, str]]:
    return [(one.load, str(one.word)) for one in standing(report, "ngram").against_deployed]


def test_an_invalid_measurement_of_what_is_deployed_shows_no_arm_to_be_faster() -> None:
    report = against_deployed(1.05, spoiled=True)
    assert {v.word for v in report.verdicts if v.arm == "deployed"} == {VerdictWord.INVALID}
    assert report.recommendation.arm is None
    assert all(one.ratio is None for one in standing(report, "ngram").against_deployed)
    assert "(deployed) it is invalid on copy at low, copy at high" in report.recommendation.sentence


def test_an_arm_that_only_beats_target_only_with_its_hands_tied_is_not_recommended() -> None:
    report = against_deployed(1.3)
    assert standing(report, "deployed").standing is Standing.AS_DEPLOYED
    assert standing(report, "ngram").standing is Standing.BEHIND_DEPLOYED
    assert (report.recommendation.arm, report.recommendation.command) == (None, "")
    assert {one.arm for one in report.recommendation.by_regime} == {None}
    assert report.recommendation.sentence == (
        "Keep target-only: ngram helps on copy at low, copy at high, but against target-only as it would be deployed "
        "(deployed) it makes no difference on copy at low, copy at high."
    )


def test_an_arm_that_beats_it_as_deployed_too_is() -> None:
    report = against_deployed(1.05)
    assert report.recommendation.arm == "ngram"
    assert words_against_deployed(report) == [("low", "HELPS"), ("high", "HELPS")]
    found = standing(report, "ngram").against_deployed[0].ratio
    assert found is not None
    assert found.value == pytest.approx(1.3 / 1.05, rel=0.02)
    assert "as it would be deployed (deployed) it helps on copy at low, copy at high." in report.recommendation.sentence


def test_a_condition_at_which_what_is_deployed_is_faster_is_not_averaged_away() -> None:
    """Over both loads together ngram is faster than it; at high alone it is a fifth slower."""
    report = against_deployed(0.8, 1.6)
    assert words_against_deployed(report) == [("low", "HELPS"), ("high", "HURTS")]
    answer = report.recommendation
    assert (answer.arm, answer.command) == (None, "")
    assert [(one.regime, one.arm) for one in answer.by_regime] == [("latency", "ngram"), ("serving", None)]
    assert answer.sentence.startswith(
        "It depends: ngram helps on copy at low, copy at high, but against target-only as it would be deployed "
        "(deployed) it helps on copy at low and hurts on copy at high. For the latency regime (low) alone ngram is"
    )


def test_what_is_undecided_against_what_is_deployed_is_said_and_bars_nothing() -> None:
    report = against_deployed(1.05, 1.3 / 1.05)
    assert words_against_deployed(report) == [("low", "HELPS"), ("high", "INCONCLUSIVE")]
    assert report.recommendation.arm == "ngram"
    assert "it helps on copy at low and is undecided on copy at high. It costs" in report.recommendation.sentence


def test_an_answer_for_one_regime_is_held_against_what_is_deployed_there() -> None:
    held, unheld = (against_deployed(low, 1.0, serving=1 / 1.3).recommendation for low in (1.05, 1.3))
    assert [one.arm for one in held.by_regime] == ["ngram", None]
    assert [one.arm for one in unheld.by_regime] == [None, None]


def test_two_targets_as_deployed_must_both_be_beaten() -> None:
    words = [VerdictWord.HELPS, VerdictWord.INCONCLUSIVE]
    (first, second) = standing(against_deployed(1.05), "ngram").against_deployed
    each = [
        one.model_copy(update={"deployed": name, "word": word})
        for name, word in zip("ab", words, strict=True)
        for one in (first, second)
    ]
    assert not holds(each)
    assert holds(each[:2])
    assert holds(())


def test_the_answer_for_a_regime_goes_by_the_rule_of_the_first_choice() -> None:
    """Both help at low and hurt at high; the draft is later in the manifest, and shown to be faster."""
    report = report_of(speedup={"low": 1.3, "high": 1 / 2}, arm_speedup={"draft": 1.2})
    assert {one.standing for one in report.recommendation.weighed} == {Standing.MIXED}
    assert [one.arm for one in report.recommendation.by_regime] == ["draft", None]
    alike = report_of(speedup={"low": 1.3, "high": 1 / 2}, arm_speedup={"draft": 1.01}, block_noise=0.02)
    assert [one.arm for one in alike.recommendation.by_regime] == ["ngram", None]


def test_what_picking_gains_is_not_said_of_the_arm_that_was_picked() -> None:
    report = report_of(arm_speedup={"draft": 1.2})
    picked = report.selection
    assert picked is not None
    assert f"{picked.ratio_left_out:.3f}" not in report.recommendation.sentence
    assert f"The best of the other blocks, whichever arm it is, has {picked.ratio_left_out:.3f}" in picked.sentence


def test_an_arm_that_helps_at_fewer_conditions_is_told_in_a_sentence() -> None:
    evidence = with_draft_costs(make_evidence(Dials(speedup=FASTER, manifest=two_arms())))
    for run in [r for r in evidence.runs if (r.arm, r.load) == ("draft", "high")]:
        same = next(r for r in make_evidence().runs if (r.arm, r.block, r.load) == ("ngram", run.block, "high"))
        evidence = replace_run(
            evidence, arm="draft", block=run.block, load="high", observations=same.observations, counters=same.counters
        )
    answer = build_report(evidence).recommendation
    assert answer.candidate == "ngram"
    assert answer.sentence.endswith(" draft helps at fewer conditions.")


def test_no_sentence_of_the_answer_has_a_word_in_capitals() -> None:
    reports = (
        report_of(speedup={"low": 1.3, "high": 1 / 1.3}),
        against_deployed(1.3),
        against_deployed(1.05, spoiled=True),
        build_report(make_evidence()),
    )
    for answer in (report.recommendation for report in reports):
        said = [answer.sentence, *(one.sentence for one in (*answer.weighed, *answer.by_regime))]
        assert not [(word, sentence) for word in VerdictWord for sentence in said if word in sentence]
