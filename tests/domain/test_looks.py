"""Planned looks: how the error is spent over them, what stops an experiment, and what it then says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.domain.finding import BLOCKS_FOR_DECISION, find
from app.domain.judged import stopping_look
from app.domain.looks import final_confidence, planned_looks, spent
from app.domain.manifest import LOOK_MIN, Manifest
from app.domain.power_plan import Noise, power_plan
from app.domain.report import build_report
from app.domain.vocabulary import VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest

FASTER = {"low": 1.3, "high": 1.3}


def manifest(blocks: int = 10, looks: tuple[int, ...] = (5,), **changes: Any) -> Manifest:
    return make_manifest(blocks=blocks, looks=list(looks), **changes)


def test_the_spending_is_o_brien_and_fleming_s() -> None:
    """Values of Lan and DeMets' function at 5%, two-sided; half the blocks leave nearly all of it for the end."""
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert spent(0.5, 0.05) == pytest.approx(2 * stats.norm.sf(1.959964 / 0.5**0.5), rel=1e-6)
    assert spent(0.5, 0.05) == pytest.approx(0.00557, abs=1e-5)
    assert spent(0.25, 0.05) < 1e-4


@given(st.integers(6, 100), st.sets(st.integers(5, 99), min_size=1, max_size=4), st.floats(0.6, 0.999))
def test_the_looks_together_spend_the_declared_error(blocks: int, at: set[int], confidence: float) -> None:
    looks = sorted(n for n in at if n < blocks) or [5]
    planned = planned_looks(make_manifest(blocks=blocks, looks=looks, margins={"confidence": confidence}))
    assert [look.blocks for look in planned] == [*looks, blocks]
    assert all(look.error >= 0 for look in planned)
    assert sum(look.error for look in planned) == pytest.approx(1 - confidence)


def test_without_looks_nothing_changes() -> None:
    plain = make_manifest()
    assert final_confidence(plain) == plain.margins.confidence
    report = build_report(make_evidence())
    assert (report.looks, report.confidence) == ((), 0.95)
    assert b"looks" not in plain.canonical()


def test_no_look_is_earlier_than_a_decision_may_be() -> None:
    assert LOOK_MIN == BLOCKS_FOR_DECISION


def test_a_look_that_settles_every_word_ends_it() -> None:
    evidence = make_evidence(Dials(speedup=FASTER, manifest=manifest(), blocks_run=5))
    report = build_report(evidence)
    assert (report.interim, report.blocks_complete, report.blocks_planned) == (False, 5, 10)
    (look,) = report.looks
    assert (look.blocks, look.of, look.stops, look.words) == (5, 10, True, {"HELPS": 2})
    assert report.recommendation.arm == "ngram"
    assert stopping_look(evidence) == look


def test_what_is_undecided_at_a_look_goes_on() -> None:
    dials = Dials(speedup=FASTER, block_noise=0.25, manifest=manifest(), blocks_run=5)
    evidence = make_evidence(dials)
    report = build_report(evidence)
    assert VerdictWord.INCONCLUSIVE in {v.word for v in report.verdicts}
    assert report.interim
    assert report.recommendation.arm is None
    assert [look.stops for look in report.looks] == [False]
    assert stopping_look(evidence) is None


def test_before_its_last_block_is_complete_no_look_is_taken() -> None:
    evidence = make_evidence(Dials(speedup=FASTER, manifest=manifest(), blocks_run=4))
    assert build_report(evidence).looks == ()
    early = make_evidence(Dials(speedup=FASTER, manifest=manifest(), blocks_run=6))
    without = early.model_copy(update={"sessions": tuple(s for s in early.sessions if s.block != 2)})
    assert build_report(without).looks == ()


def test_blocks_after_the_look_that_ended_it_change_nothing() -> None:
    """Another worker may have measured on: what stopped at a look is reported as of that look."""
    at_look, later = (make_evidence(Dials(speedup=FASTER, manifest=manifest(), blocks_run=n)) for n in (5, 7))
    assert later.runs[: len(at_look.runs)] == at_look.runs
    report = build_report(later)
    assert report.blocks_complete == 5
    assert report.verdicts == build_report(at_look).verdicts
    assert {s.block for s in report.sessions} == set(range(5))


def test_strata_of_a_look_rest_on_its_blocks_alone() -> None:
    """In the blocks after it target-only answers at another length: they must not move a request's stratum."""
    planned = manifest(blocks=12)
    at_look, later = (make_evidence(Dials(speedup=FASTER, manifest=planned, blocks_run=n)) for n in (5, 12))
    long = {"completion_tokens": 200}
    runs = tuple(
        run.model_copy(update={"observations": tuple(o.model_copy(update=long) for o in run.observations)})
        if run.block >= 5
        else run
        for run in later.runs
    )
    report = build_report(later.model_copy(update={"runs": runs}))
    assert report.blocks_complete == 5
    assert report.strata == build_report(at_look).strata
    assert "actual-output=1-32" in report.strata["copy"]


def test_intervals_at_a_look_are_those_of_the_error_that_it_may_spend() -> None:
    report = build_report(make_evidence(Dials(speedup=FASTER, manifest=manifest(), blocks_run=5)))
    plain = build_report(make_evidence(Dials(speedup=FASTER, manifest=make_manifest())))
    look = planned_looks(manifest())[0]
    assert report.confidence == look.confidence
    for ours, fixed in zip(report.verdicts, plain.verdicts, strict=True):
        assert ours.ratio is not None
        assert fixed.ratio is not None
        assert ours.ratio.confidence == look.confidence
        assert ours.ratio.low is not None
        assert fixed.ratio.low is not None
        assert ours.ratio.low < fixed.ratio.low


def test_a_word_that_a_fixed_design_would_give_is_not_given_at_a_look_for_free() -> None:
    """Log-ratios that clear the margin at 5% and not at what the look may spend."""
    logs = [0.10, 0.13, 0.08, 0.15, 0.11]
    look = planned_looks(manifest())[0]
    assert find(logs, delta=0.05, confidence=0.95, family=1).word is VerdictWord.HELPS
    assert find(logs, delta=0.05, confidence=look.confidence, family=1).word is VerdictWord.INCONCLUSIVE


def test_at_the_end_what_earlier_looks_could_spend_is_missing() -> None:
    report = build_report(make_evidence(Dials(block_noise=0.05, manifest=manifest())))
    assert report.confidence == final_confidence(manifest())
    assert report.confidence is not None
    assert report.confidence > 0.95
    assert [look.blocks for look in report.looks] == [5, 10]
    assert not report.interim


def test_the_plan_says_what_looks_cost_and_save() -> None:
    sentences = power_plan(manifest(), Noise(sd=0.01, source="as given")).sentences
    assert any("Look after 5 of 10 blocks: it spends 0.56% of the 5% error" in s for s in sentences)
    assert any("the looks save about" in s and "the end spends 4.44%" in s for s in sentences)
    assert not any("Look" in s for s in power_plan(make_manifest(), Noise(sd=0.01, source="as given")).sentences)
