"""Goodput counts what is complete, in time and correct, over what was offered."""

import pytest

from app.domain.comparison import compare
from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence
from app.domain.goodput import Good, good_of, good_requests, good_share, goodput_rps, mean_goodput
from app.domain.latency import window_s
from app.domain.manifest import Manifest
from app.domain.pairing import complete_blocks
from app.domain.results import arm_results
from app.domain.saturation import saturations
from app.domain.scored import is_correct, sample_of
from app.domain.scoring.terms import Quality, ScorerName
from app.domain.vocabulary import Outcome
from tests.domain.evidence_factory import (
    Dials,
    make_evidence,
    make_manifest,
    make_observation,
    make_run,
    manifest_document,
)

CONDITION = Condition("ngram", "copy", "low")
EXACT = Quality(scorer=ScorerName.EXACT)


def scored_manifest(**quality: object) -> Manifest:
    stated = {"scorer": "exact", **quality}
    return make_manifest(workloads=[{"name": "copy", "trace": "c" * 64, "quality": stated}])


def scored_evidence(wrong: dict[str, int], **quality: object) -> ExperimentEvidence:
    """All requests are answered in time; of each arm the first so many of each run are wrong."""
    evidence = make_evidence(Dials(manifest=scored_manifest(**quality)))
    runs = [
        run.model_copy(
            update={
                "scorer": "exact/1",
                "scores": {
                    o.request_id: float(int(o.request_id.split("-")[1]) >= wrong.get(run.arm, 0))
                    for o in run.observations
                },
            }
        )
        for run in evidence.runs
    ]
    return evidence.model_copy(update={"runs": tuple(runs)})


def test_without_a_scorer_nothing_changes() -> None:
    run = make_run(0, "ngram", "copy", "low", speed=1.0, dials=Dials())
    rule = Good(make_manifest().slo)
    seconds = window_s(run.observations)
    assert good_requests((run, run.observations), rule) == (12, 12)
    assert seconds is not None
    assert goodput_rps((run, run.observations), rule) == pytest.approx(12 / seconds)


def test_a_wrong_answer_is_not_good_however_fast() -> None:
    evidence = scored_evidence({"ngram": 3})
    run = next(r for r in evidence.runs if r.arm == "ngram" and r.load == "low")
    rule = good_of(evidence, CONDITION)
    assert good_requests((run, run.observations), rule) == (9, 12)
    late = rule._replace(slo=rule.slo.model_copy(update={"e2e_ms": 1.0}))
    assert good_requests((run, run.observations), late) == (0, 12)


def test_an_incomplete_answer_is_not_good_whatever_its_score() -> None:
    evidence = scored_evidence({})
    run = next(r for r in evidence.runs if r.arm == "ngram" and r.load == "low")
    cut = (make_observation("low-0", outcome=Outcome.TRUNCATED), *run.observations[1:])
    assert good_requests((run, cut), good_of(evidence, CONDITION)) == (11, 12)


def test_an_answer_without_a_score_is_not_correct() -> None:
    run = make_run(0, "ngram", "copy", "low", speed=1.0, dials=Dials())
    some = run.model_copy(update={"scorer": "exact/1", "scores": {"low-0": 1.0}})
    assert good_requests((some, some.observations), Good(make_manifest().slo, EXACT)) == (1, 12)
    assert not is_correct(some, "low-1", EXACT)


def test_a_threshold_is_met_by_its_own_value() -> None:
    run = make_run(0, "ngram", "copy", "low", speed=1.0, dials=Dials())
    scored = run.model_copy(update={"scorer": "overlap/1", "scores": {"a": 0.1 + 0.2, "b": 0.29}})
    quality = Quality(scorer=ScorerName.OVERLAP, correct_from=0.3)
    assert is_correct(scored, "a", quality)
    assert not is_correct(scored, "b", quality)


def test_of_a_run_that_was_not_scored_nothing_is_known() -> None:
    run = make_run(0, "ngram", "copy", "low", speed=1.0, dials=Dials())
    part, rule = (run, run.observations), Good(make_manifest().slo, EXACT)
    assert goodput_rps(part, rule) is None
    assert mean_goodput([part], rule).why == "answers of 1 of 1 runs were not scored, and only correct answers count"
    assert good_share([part], rule).value is None


def test_a_sample_stands_for_all() -> None:
    evidence = scored_evidence({}, samples=4)
    rule = good_of(evidence, CONDITION)
    assert rule.sample is not None
    assert len(rule.sample) == 4
    run = next(r for r in evidence.runs if r.arm == "ngram" and r.load == "low")
    wrong = min(rule.sample)
    run = run.model_copy(update={"scores": {name: float(name != wrong) for name in rule.sample}})
    seconds = window_s(run.observations)
    assert seconds is not None
    assert goodput_rps((run, run.observations), rule) == pytest.approx(0.75 * 12 / seconds)
    outside = [o for o in run.observations if o.request_id not in rule.sample]
    assert goodput_rps((run, outside), rule) is None
    assert mean_goodput([(run, outside)], rule).why == "no request of the scored sample is in it"


def test_the_sample_depends_on_the_ids_alone() -> None:
    labels = make_evidence().labels["copy"]
    quality = Quality(scorer=ScorerName.EXACT, samples=5)
    assert sample_of(quality, labels) == sample_of(quality, labels[::-1])
    assert sample_of(EXACT, labels) is None
    first, more = sample_of(quality, labels), sample_of(quality.model_copy(update={"samples": 9}), labels)
    assert first is not None
    assert more is not None
    assert first < more


def test_the_report_s_goodput_counts_correct_answers() -> None:
    evidence = scored_evidence({"ngram": 6})
    blocks = complete_blocks(evidence)
    saturation = saturations(evidence, blocks)
    results = {(r.arm, r.load): r for r in arm_results(evidence, blocks, saturation) if r.stratum == "all"}
    assert results["ngram", "low"].slo_attainment.value == 0.5
    assert results["target-only", "low"].slo_attainment.value == 1.0
    ratios = {
        c.load: c for c in compare(evidence, blocks, saturation) if (c.metric, c.stratum) == ("goodput_ratio", "all")
    }
    assert ratios["low"].ratio.value == pytest.approx(0.5, rel=0.02)


def test_a_manifest_without_quality_is_the_manifest_that_it_was() -> None:
    assert "quality" not in make_manifest().canonical().decode()
    assert make_manifest().digest != scored_manifest().digest
    assert make_manifest(**manifest_document()).digest == make_manifest().digest
