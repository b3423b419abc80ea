from app.domain.correctness import Correctness, Verification, verify
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.greedy import Answer
from app.domain.greedy_cases import NOT_ASKED
from app.domain.greedy_classes import MismatchClass
from app.domain.greedy_mismatch import TOKENS_AROUND
from app.domain.greedy_rates import EXCESS_MARGIN, defect_share, excess
from app.domain.greedy_tables import GreedyMode
from app.domain.pairing import complete_blocks
from app.domain.verified import VerificationMode, VerificationRecord
from tests.domain.evidence_factory import TOKENS, Dials, make_evidence, make_manifest, replace_session
from tests.domain.greedy_evidence import ANSWER, DIED, OTHER, THIRD, answering, diagnosing, verified

M = MismatchClass


def check(evidence: ExperimentEvidence) -> Verification:
    """The verification over complete blocks."""
    return verify(evidence, complete_blocks(evidence))


def ngram(evidence: ExperimentEvidence) -> Correctness:
    return check(evidence).correctness[0]


def again(evidence: ExperimentEvidence, *sessions: SessionEvidence) -> ExperimentEvidence:
    return evidence.model_copy(update={"diagnoses": sessions})


def differing(*, gap: float, block: int = 3, singly: Answer = OTHER) -> ExperimentEvidence:
    """One request that ngram answers differently in one block, asked again there."""
    evidence = answering(make_evidence(), "ngram", block, OTHER)
    fresh = diagnosing(block, "ngram", {"low-0": singly}), diagnosing(block, "target-only", {"low-0": ANSWER}, gap=gap)
    return again(evidence, *fresh)


def test_equal_answers_match_everywhere() -> None:
    found = check(make_evidence())
    (arm,) = found.correctness
    assert (arm.compared, arm.mismatched, arm.broken, arm.processes) == (24, 0, (), 5)
    (timed,) = (rate for rate in arm.rates if rate.prompts)
    assert (timed.mode, timed.control_prompts, timed.control_differing) == (GreedyMode.TIMED, 24, 0)
    assert timed.match_rate.value == 1.0
    assert timed.excess.value == 0.0
    assert found.mismatches == ()
    assert "in 5 processes" in arm.sentence


def test_a_mismatch_is_listed_with_its_first_divergence_and_surroundings() -> None:
    (mismatch,) = check(answering(make_evidence(), "ngram", 3, OTHER)).mismatches
    assert (mismatch.block, mismatch.request_id, mismatch.first_divergence) == (3, "low-0", 12)
    assert mismatch.arm_tokens == OTHER.token_ids[12 - TOKENS_AROUND : 12 + TOKENS_AROUND]
    assert mismatch.baseline_tokens == ANSWER.token_ids[12 - TOKENS_AROUND : 12 + TOKENS_AROUND]


def test_what_was_never_asked_again_bars_every_claim() -> None:
    arm = ngram(answering(make_evidence(), "ngram", 3, OTHER))
    assert arm.classes == {M.NOT_DIAGNOSED: 1}
    assert "could not be diagnosed" in arm.broken[0]
    assert NOT_ASKED in arm.broken[0]


def test_a_failed_diagnosis_says_so() -> None:
    evidence = answering(make_evidence(), "ngram", 3, OTHER)
    (reason,) = ngram(again(evidence, diagnosing(3, "ngram", {}, failure=DIED))).broken
    assert "the engine died" in reason


def test_classes_come_from_the_fresh_servers() -> None:
    assert ngram(differing(gap=5.0)).classes == {M.SPEC_DEFECT: 1}
    assert ngram(differing(gap=0.2)).classes == {M.NEAR_TIE: 1}
    assert ngram(differing(gap=0.8, singly=ANSWER)).classes == {M.BATCH_EFFECT: 1}
    assert ngram(differing(gap=5.0, singly=ANSWER)).classes == {M.SPEC_DEFECT: 1}


def test_a_mismatch_knows_its_gap_its_place_and_its_re_runs() -> None:
    (mismatch,) = check(differing(gap=5.0)).mismatches
    assert (mismatch.place, mismatch.expected_token, mismatch.arm_token) == (12, 12, 999)
    assert (mismatch.gap_nats, mismatch.tolerance_nats, mismatch.raw_logits) == (5.0, 0.25, True)
    assert [(r.arm, r.is_baselines, r.is_arms) for r in mismatch.reruns] == [("target-only", True, False)] * 3 + [
        ("ngram", False, True)
    ] * 3


def test_what_is_no_defect_breaks_nothing_and_is_told() -> None:
    arm = ngram(differing(gap=0.2))
    assert arm.broken == ()
    assert "1 were diagnosed, none is a defect (of all of them at most 95%)" in arm.sentence


def test_another_blocks_servers_may_speak_where_this_ones_were_not_asked() -> None:
    elsewhere = differing(gap=0.2, block=1)
    evidence = answering(elsewhere, "ngram", 3, OTHER)
    assert ngram(evidence).classes == {M.NEAR_TIE: 1}


def test_prompts_beyond_the_cap_bar_nothing_where_no_defect_was_found() -> None:
    evidence = answering(make_evidence(), "ngram", 3, OTHER, places=(0, 1))
    capped = diagnosing(3, "ngram", {"low-0": OTHER}, left_out={"copy/low-1": "left out: a block asks at most 1"})
    arm = ngram(again(evidence, capped, diagnosing(3, "target-only", {"low-0": ANSWER}, gap=0.2)))
    assert (arm.diagnosed, arm.left_out, arm.broken) == (1, 1, ())
    worse = ngram(again(evidence, capped, diagnosing(3, "target-only", {"low-0": ANSWER}, gap=5.0)))
    assert "1 of 2 greedy answers" in worse.broken[0]


def test_target_only_of_another_block_answers_for_an_arm() -> None:
    wavering = answering(make_evidence(), "target-only", 1, OTHER)
    arm = ngram(answering(wavering, "ngram", 3, OTHER))
    assert arm.classes == {M.NONDETERMINISM: 1}
    assert arm.broken == ()
    third = ngram(answering(wavering, "ngram", 3, THIRD))
    assert third.classes == {M.NOT_DIAGNOSED: 1}
    assert third.broken


def test_the_control_counts_target_only_against_itself() -> None:
    (timed,) = (r for r in ngram(answering(make_evidence(), "target-only", 1, OTHER)).rates if r.prompts)
    assert (timed.control_differing, timed.differing) == (1, 1)
    assert timed.excess.value == -1 / 24


def test_the_gravest_come_first() -> None:
    evidence = answering(differing(gap=5.0), "ngram", 1, THIRD, places=(5,))
    assert [m.mismatch_class for m in check(evidence).mismatches] == [M.SPEC_DEFECT, M.NOT_DIAGNOSED]


def test_an_excess_above_the_margin_breaks_what_each_class_alone_would_not() -> None:
    """Every answer at a near tie is no defect; that they all flip, and target-only's never do, is none of rounding."""
    places = range(12)
    evidence = answering(make_evidence(), "ngram", 0, OTHER, places=places)
    names = {f"low-{i}": OTHER for i in places}
    fresh = diagnosing(0, "ngram", names), diagnosing(0, "target-only", dict.fromkeys(names, ANSWER), gap=0.1)
    arm = ngram(again(evidence, *fresh))
    assert arm.classes == {M.NEAR_TIE: 12}
    (reason,) = arm.broken
    assert "12 of 24 timed greedy answers" in reason


def test_the_excess_is_bounded_on_both_sides_and_its_pairs_cancel() -> None:
    found = excess(100, 30, 0)
    assert found.value == 0.3
    assert found.low is not None
    assert EXCESS_MARGIN < found.low < 0.3
    level = excess(100, 10, 10)
    assert level.low is not None
    assert level.low < 0
    assert excess(0, 0, 0).value is None


def test_no_defect_in_a_hundred_leaves_three_in_a_hundred() -> None:
    bound = defect_share(0, 100).high
    assert bound is not None
    assert round(bound, 4) == 0.0295  # 1 - .05 ** (1 / 100), method A15


def phase(block: int, arm: str, answer: Answer) -> dict[str, object]:
    """What a session's verification says where each request got this answer."""
    modes = (VerificationMode.CONCURRENT, VerificationMode.SINGLE)
    return {"verification": VerificationRecord(answers=tuple(verified(mode, "low-0", answer) for mode in modes))}


def test_sampled_experiments_are_judged_by_the_phase_alone() -> None:
    evidence = make_evidence(Dials(manifest=make_manifest(sampling={"temperature": 0.7})))
    evidence = answering(evidence, "ngram", 0, OTHER)
    assert ngram(evidence).compared == 0
    for block in (0, 1):
        for arm, answer in (("target-only", ANSWER), ("ngram", OTHER)):
            evidence = replace_session(evidence, arm=arm, block=block, **phase(block, arm, answer))
    found = check(evidence)
    assert {m.mode for m in found.mismatches} == {GreedyMode.CONCURRENT, GreedyMode.SINGLE}
    assert found.correctness[0].compared == 1
    assert found.correctness[0].processes == 2


def silent(block: int, arm: str, *modes: VerificationMode) -> dict[str, object]:
    """A session whose verification failed in these modes and answered in the other."""
    greedy = (VerificationMode.CONCURRENT, VerificationMode.SINGLE)
    given = (verified(mode, "low-0", ANSWER) for mode in greedy)
    failed = {"token_ids": (), "text": "", "finish_reason": None, "error": "the stream ended early"}
    answers = (one.model_copy(update=failed) if one.mode in modes else one for one in given)
    return {"verification": VerificationRecord(answers=tuple(answers))}


def sampled_with(arm_failed_in: dict[int, tuple[VerificationMode, ...]], target: dict[str, object]) -> Correctness:
    """Timed answers are sampled, so the phase alone speaks."""
    evidence = make_evidence(Dials(manifest=make_manifest(sampling={"temperature": 0.7})))
    for block, modes in arm_failed_in.items():
        evidence = replace_session(evidence, arm="target-only", block=block, **target)
        evidence = replace_session(evidence, arm="ngram", block=block, **silent(block, "ngram", *modes))
    return ngram(evidence)


BOTH = (VerificationMode.CONCURRENT, VerificationMode.SINGLE)


def test_an_arm_that_answers_nothing_is_not_taken_for_one_that_was_not_compared() -> None:
    arm = sampled_with({0: BOTH, 1: BOTH}, phase(0, "target-only", ANSWER))
    assert (arm.compared, arm.unanswered) == (0, 1)
    (reason,) = arm.broken
    assert "1 of 1 greedy requests" in reason
    assert "the stream ended early" in reason
    assert arm.sentence == reason


def test_what_failed_once_and_was_answered_at_another_time_bars_nothing() -> None:
    arm = sampled_with({0: BOTH, 1: (VerificationMode.SINGLE,)}, phase(0, "target-only", ANSWER))
    assert (arm.unanswered, arm.broken) == (0, ())


def test_what_target_only_did_not_answer_is_not_held_against_an_arm() -> None:
    arm = sampled_with({0: BOTH}, silent(0, "target-only", *BOTH))
    assert (arm.compared, arm.unanswered, arm.broken) == (0, 0, ())
    assert "no greedy answer of ngram could be compared" in arm.sentence


def test_one_block_is_one_process_and_is_called_so() -> None:
    arm = ngram(make_evidence(Dials(blocks_run=1)))
    assert arm.processes == 1
    assert "in one process only" in arm.sentence


def test_length_and_finish_reason_are_part_of_the_answer() -> None:
    (shorter,) = check(
        answering(make_evidence(), "ngram", 0, ANSWER._replace(token_ids=ANSWER.token_ids[:-1]))
    ).mismatches
    assert (shorter.mismatch_class, shorter.first_divergence) == (M.SPEC_DEFECT, TOKENS - 1)
    (stopped,) = check(answering(make_evidence(), "ngram", 0, ANSWER._replace(finish_reason="stop"))).mismatches
    assert (stopped.arm_finish, stopped.first_divergence) == ("stop", TOKENS)


def test_a_request_that_samples_itself_is_not_compared() -> None:
    evidence = answering(make_evidence(), "ngram", 0, OTHER)
    labels = tuple(
        label.model_copy(update={"is_sampled": label.request_id == "low-0"}) for label in evidence.labels["copy"]
    )
    assert ngram(evidence.model_copy(update={"labels": {"copy": labels}})).mismatched == 0


def test_reference_share_counts_each_request_once() -> None:
    right = ngram(answering(make_evidence(), "ngram", 0, ANSWER._replace(text=" answer 0\n")))
    assert right.reference_exact.n == 24
    assert right.reference_exact.value == 1 / 24
    assert right.baseline_reference_exact.value == 0
