from app.domain.correctness import EXPLAINED, TOKENS_AROUND, Verification, verify
from app.domain.evidence import ExperimentEvidence
from app.domain.pairing import complete_blocks
from tests.domain.evidence_factory import TOKENS, Dials, find_run, make_evidence, make_manifest, replace_run

ANSWER = tuple(range(TOKENS))
OTHER = (*ANSWER[:12], 999, *ANSWER[13:])
THIRD = (*ANSWER[:12], 777, *ANSWER[13:])


def check(evidence: ExperimentEvidence) -> Verification:
    """The verification over complete blocks."""
    return verify(evidence, complete_blocks(evidence))


def answering(evidence: ExperimentEvidence, arm: str, block: int, **changes: object) -> ExperimentEvidence:
    """The first request of one low-load run answered differently."""
    run = find_run(evidence, arm=arm, block=block, load="low")
    first, *rest = run.observations
    return replace_run(
        evidence, arm=arm, block=block, load="low", observations=(first.model_copy(update=changes), *rest)
    )


def test_equal_answers_match_everywhere() -> None:
    found = check(make_evidence())
    (ngram,) = found.correctness
    assert (ngram.compared, ngram.mismatched, ngram.unexplained) == (5 * 2 * 12, 0, 0)
    assert (ngram.control_compared, ngram.control_mismatched) == (4 * 2 * 12, 0)
    assert ngram.match_rate.value == 1.0
    assert found.mismatches == ()


def test_a_mismatch_is_listed_with_its_first_divergence_and_surroundings() -> None:
    found = check(answering(make_evidence(), "ngram", 3, token_ids=OTHER))
    (mismatch,) = found.mismatches
    assert (mismatch.block, mismatch.request_id, mismatch.first_divergence) == (3, "low-0", 12)
    assert mismatch.arm_tokens == OTHER[12 - TOKENS_AROUND : 12 + TOKENS_AROUND]
    assert mismatch.baseline_tokens == ANSWER[12 - TOKENS_AROUND : 12 + TOKENS_AROUND]
    assert mismatch.explanation is None
    assert found.correctness[0].unexplained == 1


def test_length_and_finish_reason_are_part_of_the_answer() -> None:
    shorter = check(answering(make_evidence(), "ngram", 0, token_ids=ANSWER[:-1]))
    assert shorter.mismatches[0].first_divergence == TOKENS - 1
    stopped = check(answering(make_evidence(), "ngram", 0, finish_reason="stop"))
    assert (stopped.mismatches[0].arm_finish, stopped.mismatches[0].first_divergence) == ("stop", TOKENS)


def test_a_mismatch_is_explained_only_by_an_answer_that_target_only_gave_itself() -> None:
    wavering = answering(make_evidence(), "target-only", 1, token_ids=OTHER)
    same = check(answering(wavering, "ngram", 3, token_ids=OTHER))
    in_block_3 = next(m for m in same.mismatches if m.block == 3)
    assert in_block_3.explanation == EXPLAINED
    new = check(answering(wavering, "ngram", 3, token_ids=THIRD))
    assert next(m for m in new.mismatches if m.block == 3).explanation is None


def test_the_control_counts_target_only_against_itself() -> None:
    found = check(answering(make_evidence(), "target-only", 1, token_ids=OTHER)).correctness[0]
    assert found.control_mismatched == 1
    assert (found.mismatched, found.unexplained) == (1, 0)


def test_unexplained_mismatches_come_first() -> None:
    wavering = answering(make_evidence(), "target-only", 1, token_ids=OTHER)
    listed = check(answering(wavering, "ngram", 3, token_ids=THIRD)).mismatches
    assert [m.explanation for m in listed] == [None, EXPLAINED]


def test_sampled_outputs_are_not_compared_and_say_so() -> None:
    evidence = make_evidence(Dials(manifest=make_manifest(sampling={"temperature": 0.7})))
    found = check(answering(evidence, "ngram", 0, token_ids=OTHER))
    assert found.mismatches == ()
    assert found.correctness[0].match_rate.value is None
    assert "sampled" in (found.correctness[0].match_rate.why or "")


def test_reference_share_counts_each_request_once() -> None:
    right = check(answering(make_evidence(), "ngram", 0, text=" answer 0\n")).correctness[0]
    assert right.reference_exact.n == 24
    assert right.reference_exact.value == 1 / 24
    assert right.baseline_reference_exact.value == 0
