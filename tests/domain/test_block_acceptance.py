"""Acceptance of an engine that gives no counts per request: by block, with its interval, and never silently."""

import pytest

from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.evidence import ExperimentEvidence
from app.domain.observation import RequestObservation
from app.domain.report import build_report
from app.domain.results import ArmResult
from tests.domain.evidence_factory import K, find_run, make_evidence, replace_run, replace_session

LOST = "responses carry no speculation counts of their own"


def blind(evidence: ExperimentEvidence) -> ExperimentEvidence:
    """The same experiment on an engine whose responses say nothing of speculation."""
    for block in range(evidence.manifest.blocks):
        evidence = replace_session(
            evidence, arm="ngram", block=block, flags_left_out={PER_REQUEST_SPECULATION_FLAG: LOST}
        )
        for load in ("low", "high"):
            run = find_run(evidence, arm="ngram", block=block, load=load)
            silent = tuple(
                RequestObservation.model_validate({**o.model_dump(), "speculation": None}) for o in run.observations
            )
            evidence = replace_run(evidence, arm="ngram", block=block, load=load, observations=silent)
    return evidence


def accepting(evidence: ExperimentEvidence, accepted: dict[int, int]) -> ExperimentEvidence:
    """Block → accepted tokens that the engine counted in its low load, all at position 0."""
    for block, count in accepted.items():
        run = find_run(evidence, arm="ngram", block=block, load="low")
        assert run.counters is not None
        counters = run.counters.model_copy(
            update={
                "spec_decode_num_accepted_tokens": count,
                "spec_decode_num_accepted_tokens_per_pos": (count, 0, 0, 0),
            }
        )
        evidence = replace_run(evidence, arm="ngram", block=block, load="low", counters=counters)
    return evidence


def result(evidence: ExperimentEvidence, arm: str = "ngram", stratum: str = "all") -> ArmResult:
    return next(r for r in build_report(evidence).results if (r.arm, r.load, r.stratum) == (arm, "low", stratum))


def test_the_rate_is_the_mean_of_blocks_with_its_t_interval() -> None:
    # 60 drafts of 4 in each block; accepted 48, 54, 60, 66, 72 give rates .2, .225, .25, .275, .3
    found = result(accepting(blind(make_evidence()), {0: 48, 1: 54, 2: 60, 3: 66, 4: 72}))
    rate = found.acceptance_rate
    assert rate.value == pytest.approx(0.25)
    assert rate.n == 5
    # s = .0395285, t(.975; 4) = 2.776445, half = .0490811
    assert (rate.low, rate.high) == (pytest.approx(0.2009189, abs=1e-6), pytest.approx(0.2990811, abs=1e-6))
    assert "engine counters" in rate.source
    assert found.mean_length_excl.value == pytest.approx(1.0)
    assert found.mean_length_incl.value == pytest.approx(2.0)


def test_positions_come_from_the_counters() -> None:
    found = result(blind(make_evidence()))
    assert found.acceptance_by_position == (1.0, 1.0, 1.0, 0.0)
    assert found.conditional_acceptance_by_position == (1.0, 1.0, 1.0, 0.0)


def test_beyond_the_first_position_short_drafts_leave_the_condition_open() -> None:
    evidence = blind(make_evidence())
    for block in range(5):
        run = find_run(evidence, arm="ngram", block=block, load="low")
        assert run.counters is not None
        drafted = run.counters.spec_decode_num_draft_tokens or 0
        shorter = run.counters.model_copy(update={"spec_decode_num_draft_tokens": drafted - 1})
        evidence = replace_run(evidence, arm="ngram", block=block, load="low", counters=shorter)
    found = result(evidence)
    assert found.conditional_acceptance_by_position == (1.0, None, None, None)
    assert len(found.acceptance_by_position) == K


def test_what_counters_cannot_tell_is_no_number() -> None:
    found = result(blind(make_evidence()))
    assert found.mean_length_emit.value is None
    assert "steps without a draft" in (found.mean_length_emit.why or "")
    apart = result(blind(make_evidence()), stratum="task=a")
    assert apart.acceptance_rate.value is None
    assert "strata apart" in (apart.acceptance_rate.why or "")


def test_the_report_says_what_this_engine_cannot_tell() -> None:
    report = build_report(blind(make_evidence()))
    assert f"{LOST} (this engine lacks {PER_REQUEST_SPECULATION_FLAG})" in report.not_shown
    assert {str(v.word) for v in report.verdicts} != {"INVALID"}


def test_target_only_still_counts_its_own_steps() -> None:
    assert result(blind(make_evidence()), arm="target-only").mean_length_emit.value == pytest.approx(1.0)
