import random

import pytest

from app.domain.comparison import METRICS
from app.domain.correctness import MISMATCHES_LISTED
from app.domain.errors import EvidenceRefused
from app.domain.report import Report, build_report
from app.domain.run_summary import summarise
from app.domain.vocabulary import NS_PER_MS, Outcome, Saturation
from tests.domain.evidence_factory import Dials, K, find_run, make_evidence, make_observation, replace_run


def test_the_same_evidence_gives_the_same_bytes_in_any_order() -> None:
    evidence = make_evidence()
    shuffled = evidence.model_copy(
        update={
            "runs": tuple(random.Random(1).sample(evidence.runs, len(evidence.runs))),
            "sessions": tuple(random.Random(2).sample(evidence.sessions, len(evidence.sessions))),
        }
    )
    assert build_report(evidence).model_dump_json() == build_report(shuffled).model_dump_json()


def test_a_report_survives_its_json() -> None:
    report = build_report(make_evidence(Dials(block_noise=0.05)))
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_an_experiment_without_evidence_has_an_interim_report() -> None:
    report = build_report(make_evidence(Dials(blocks_run=0)))
    assert report.interim
    assert report.blocks_complete == 0
    assert all(r.offered == 0 and r.acceptance_rate.value is None for r in report.results)
    assert all(c.ratio.value is None for c in report.comparisons)


def test_incomplete_blocks_are_left_out_of_every_number() -> None:
    evidence = make_evidence()
    part = evidence.model_copy(
        update={"sessions": tuple(s for s in evidence.sessions if (s.block, s.arm) != (4, "ngram"))}
    )
    report = build_report(part)
    assert (report.interim, report.blocks_complete) == (True, 4)
    assert all(len(c.block_ratios) == 4 for c in report.comparisons)
    assert all(r.offered == 4 * 12 for r in report.results if r.stratum == "all")


def test_every_condition_stratum_and_metric_is_there_once() -> None:
    report = build_report(make_evidence())
    assert report.strata == {"copy": ("all", "actual-output=1-32", "task=a", "task=b")}
    assert len(report.results) == 2 * 2 * 4
    assert (
        len({(c.load, c.stratum, c.metric) for c in report.comparisons})
        == len(report.comparisons)
        == 2 * 4 * len(METRICS)
    )
    assert sum(c.primary for c in report.comparisons) == 2
    assert all((c.p_holm is not None) == c.primary for c in report.comparisons)


def test_known_dials_come_back() -> None:
    report = build_report(make_evidence(Dials(block_noise=0.0, accepted=3, speedup={"low": 2.0})))
    ngram = next(r for r in report.results if (r.arm, r.load, r.stratum) == ("ngram", "low", "all"))
    assert ngram.acceptance_rate.value == 3 / K
    assert ngram.mean_length_excl.value == 3
    assert ngram.mean_length_incl.value == 4
    assert ngram.mean_length_emit.value == 4
    assert ngram.acceptance_by_position == (1.0, 1.0, 1.0, 0.0)
    assert ngram.conditional_acceptance_by_position == (1.0, 1.0, 1.0, 0.0)
    assert ngram.ttft_ms["p50"].value == 10
    assert ngram.tpot_ms["p50"].value == 5
    assert ngram.e2e_ms["p50"].value == 110
    assert ngram.slo_attainment.value == 1
    assert ngram.outcomes == {"success": 60}
    ratios = {c.metric: c.ratio.value for c in report.comparisons if (c.load, c.stratum) == ("low", "all")}
    assert ratios == pytest.approx(
        {
            "request_speedup": 2.0,
            "request_total_speedup": 2.0,
            "tpot_speedup": 2.0,
            "ttft_speedup": 2.0,
            "throughput_ratio": (11 + 0.22) / (11 + 0.11),
            "goodput_ratio": (11 + 0.22) / (11 + 0.11),
        }
    )


def test_the_baseline_has_no_acceptance_and_one_token_per_step() -> None:
    report = build_report(make_evidence())
    target = next(r for r in report.results if r.arm == "target-only")
    assert target.acceptance_rate.value is None
    assert target.mean_length_incl.why == "no drafts proposed"
    assert target.acceptance_by_position == ()
    assert target.mean_length_emit.value == 1


def test_cold_start_stands_apart() -> None:
    (cost,) = build_report(make_evidence()).costs
    assert (cost.startup_s.value, cost.kv_cache_tokens) == (25.0, "10,000")


def test_mismatches_beyond_the_list_are_counted_in_words() -> None:
    evidence = make_evidence(Dials(requests=30))
    for block in range(5):
        for load in ("low", "high"):
            run = find_run(evidence, arm="ngram", block=block, load=load)
            wrong = tuple(o.model_copy(update={"finish_reason": "stop"}) for o in run.observations)
            evidence = replace_run(evidence, arm="ngram", block=block, load=load, observations=wrong)
    report = build_report(evidence)
    assert len(report.mismatches) == MISMATCHES_LISTED
    assert "100 further mismatches are counted but not listed" in report.not_shown


def test_impossible_observations_are_refused_with_their_request() -> None:
    evidence = make_evidence()
    run = find_run(evidence, arm="ngram", block=0, load="low")
    early = run.observations[0].model_copy(update={"due_ns": 500 * NS_PER_MS})
    with pytest.raises(EvidenceRefused, match="low-0"):
        build_report(
            replace_run(evidence, arm="ngram", block=0, load="low", observations=(early, *run.observations[1:]))
        )


def test_a_saturated_load_is_judged_by_throughput() -> None:
    """A server of 2.2 s per request, one due each second: the queue grows for as long as the run lasts."""
    dials = Dials(requests=60)
    evidence = make_evidence(dials)
    for block in range(5):
        for arm in ("target-only", "ngram"):
            run = find_run(evidence, arm=arm, block=block, load="high")
            queued = tuple(
                o.model_copy(
                    update={
                        "chunk_ns": tuple(t + i * 1_200_000_000 for t in o.chunk_ns),
                        "end_ns": (o.end_ns or 0) + i * 1_200_000_000,
                    }
                )
                for i, o in enumerate(run.observations)
            )
            evidence = replace_run(evidence, arm=arm, block=block, load="high", observations=queued)
    report = build_report(evidence)
    assert {r.saturation for r in report.results if r.load == "high"} == {Saturation.SATURATED}
    high = next(v for v in report.verdicts if v.load == "high")
    assert high.metric == "throughput_ratio"
    assert "saturation of ngram: SATURATED" in high.reasons


def test_a_run_s_summary_gives_point_values() -> None:
    served = [make_observation(str(i), due_ns=i * 10**9, accepted=3) for i in range(3)]
    summary = summarise([*served, make_observation("x", outcome=Outcome.HTTP_ERROR)])
    assert (summary.offered, summary.success) == (4, 3)
    assert summary.ttft_p50_ms == 20
    assert summary.tpot_p50_ms == 10
    assert summary.e2e_p50_ms == 220
    assert summary.acceptance_rate == 0.75
    assert summary.mean_length_incl == 4
    assert summary.lateness_p99_ms == pytest.approx(0.1)
    assert summary.output_throughput_tps == pytest.approx(63 / 2.22)


def test_an_empty_run_has_a_summary_too() -> None:
    summary = summarise([])
    assert (summary.offered, summary.ttft_p50_ms, summary.acceptance_rate) == (0, None, None)
