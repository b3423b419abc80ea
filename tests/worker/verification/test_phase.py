"""The verification phase and the diagnosis of a block, on the fake engine with known wrongs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.greedy_classes import MismatchClass
from app.domain.lifecycle import SessionState
from app.domain.report import Report, build_report
from app.domain.verified import VerificationMode
from app.domain.vocabulary import VerdictWord
from app.runs.schemas import SessionRead
from app.runs.service import RunService
from tests.worker.conduct import PlaceMaker
from worker.conductor import conduct_queue

M = MismatchClass


async def polled(runs: RunService, experiment: str) -> AsyncIterator[list[SessionRead]]:
    """Its sessions, again and again; the test's own time limit ends a wait that has no end."""
    while True:
        yield await runs.sessions(experiment)
        await asyncio.sleep(0.1)


async def conducted(place: PlaceMaker, *, blocks: int = 1, **dials: Any) -> tuple[ExperimentEvidence, Report]:
    """An experiment in bfloat16 of target-only and ngram; the fake's logits are 20, so its steps are 1/8."""
    here = place(**dials)
    serving = {"dtype": "bfloat16", "max_model_len": 512, "max_num_seqs": 8, "prefix_caching": False}
    manifest = await here.submit(blocks=blocks, serving={**serving, "enforce_eager": True})
    await here.conduct()
    evidence = await here.evidence(manifest)
    return evidence, build_report(evidence)


async def test_every_arm_is_asked_alike_and_nothing_more_where_all_is_equal(place: PlaceMaker) -> None:
    evidence, report = await conducted(place, blocks=2)
    assert evidence.diagnoses == ()
    for session in evidence.sessions:
        assert session.verification is not None
        modes = [answer.mode for answer in session.verification.answers]
        assert modes == [VerificationMode.CONCURRENT] * 8 + [VerificationMode.SINGLE] * 8
        assert not [answer.error for answer in session.verification.answers if answer.error]
    (arm,) = report.correctness
    assert (arm.mismatched, arm.broken, arm.processes) == (0, (), 2)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"ngram": {"gap": 5.0}}, M.SPEC_DEFECT),
        ({"ngram": {"gap": 0.2}}, M.NEAR_TIE),
        ({"ngram": {"drops_last": True, "at": -1}}, M.SPEC_DEFECT),
        ({"ngram": {"finish_reason": "stop", "at": -1}}, M.SPEC_DEFECT),
        ({"target_only": {"when": "coin", "gap": 0.2}}, M.NONDETERMINISM),
    ],
    ids=["a token swapped", "a near tie", "the last token dropped", "another finish reason", "a wavering target"],
)
async def test_a_known_wrong_gets_its_class(place: PlaceMaker, wrong: dict[str, Any], expected: MismatchClass) -> None:
    evidence, report = await conducted(place, wrongs=wrong)
    found = {m.mismatch_class for m in report.mismatches}
    assert expected in found
    # A coin may fall one way each time that a prompt is asked; then it looks like a tie, and never like a defect.
    assert found <= ({expected, M.NEAR_TIE, M.BATCH_EFFECT} if expected is M.NONDETERMINISM else {expected})
    fresh = [(s.arm, s.state) for s in evidence.diagnoses]
    assert fresh == [("ngram-k4", SessionState.SUCCEEDED), ("target-only", SessionState.SUCCEEDED)]
    record = evidence.diagnoses[-1].verification
    assert record is not None
    assert record.raw_logits


@pytest.mark.parametrize(("gap", "expected"), [(0.9, M.BATCH_EFFECT), (5.0, M.SPEC_DEFECT)])
async def test_what_comes_up_under_load_only_is_judged_by_its_gap(
    place: PlaceMaker, gap: float, expected: MismatchClass
) -> None:
    _, report = await conducted(place, wrongs={"ngram": {"when": "crowd", "gap": gap}})
    assert {m.mismatch_class for m in report.mismatches} == {expected}
    assert all(m.gap_nats == pytest.approx(gap) for m in report.mismatches)


async def test_a_defect_bars_the_verdict_and_is_read_in_words(place: PlaceMaker) -> None:
    _, report = await conducted(place, wrongs={"ngram": {"gap": 5.0}})
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}
    (mismatch, *_) = report.mismatches
    assert mismatch.place == 2
    assert mismatch.token_texts[mismatch.expected_token or 0].startswith(" t")
    assert mismatch.reruns


async def test_an_engine_that_dies_while_verifying_is_evidence(place: PlaceMaker) -> None:
    # A canary, two warm-up requests and twice six measured ones come first.
    evidence, report = await conducted(place, faults={"ngram": {"die_after_requests": 17}})
    died = next(s for s in evidence.sessions if s.arm == "ngram-k4")
    assert died.state is SessionState.FAILED
    assert died.verification is not None
    assert any(answer.error for answer in died.verification.answers)
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}


async def test_a_diagnosis_that_fails_is_recorded_and_bars_the_verdict(place: PlaceMaker) -> None:
    # The measured session asks 1 + 2 + 12 + 16 requests; the fresh server is asked more of each of its prompts.
    evidence, report = await conducted(
        place, wrongs={"ngram": {"gap": 5.0}}, faults={"ngram": {"die_after_requests": 31}}
    )
    assert [s.state for s in evidence.sessions] == [SessionState.SUCCEEDED] * 2
    assert (evidence.diagnoses[0].arm, evidence.diagnoses[0].state) == ("ngram-k4", SessionState.FAILED)
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}


async def test_a_diagnosis_that_is_interrupted_is_made_anew_and_counts_once(place: PlaceMaker) -> None:
    here = place(wrongs={"ngram": {"gap": 5.0}})
    manifest = await here.submit()
    asked_again = asyncio.Event()

    async def watch() -> None:
        async for sessions in polled(RunService(here.database), manifest.digest):
            if any(session.diagnosing for session in sessions):
                break
        asked_again.set()

    watching = asyncio.create_task(watch())
    await conduct_queue(here.settings, worker="test:1", leaving=asked_again.is_set)
    await watching
    assert await here.state(manifest) != "FINISHED"
    await here.conduct()
    evidence = await here.evidence(manifest)
    assert [s.state for s in evidence.sessions] == [SessionState.SUCCEEDED] * 2  # measured once, and kept
    assert [s.arm for s in evidence.diagnoses] == ["ngram-k4", "target-only"]
    assert {m.mismatch_class for m in build_report(evidence).mismatches} == {M.SPEC_DEFECT}
