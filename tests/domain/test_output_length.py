"""Answers' real lengths become a stratum, decided by target-only alone."""

from collections.abc import Mapping

from app.domain.evidence import ExperimentEvidence
from app.domain.output_length import DIMENSION, bucket, with_output_lengths
from app.domain.report import build_report
from app.domain.vocabulary import BASELINE_ARM, Outcome
from tests.domain.evidence_factory import make_evidence


def with_lengths(evidence: ExperimentEvidence, lengths: Mapping[str, int], outcome: Outcome) -> ExperimentEvidence:
    """The evidence with each arm's answers that long, all of them with ``outcome``."""
    runs = [
        run.model_copy(
            update={
                "observations": tuple(
                    o.model_copy(update={"completion_tokens": lengths[run.arm], "outcome": outcome})
                    for o in run.observations
                )
            }
        )
        for run in evidence.runs
    ]
    return evidence.model_copy(update={"runs": tuple(runs)})


def labels(evidence: ExperimentEvidence) -> set[str | None]:
    requests = [r for of_workload in with_output_lengths(evidence).labels.values() for r in of_workload]
    return {request.strata.get(DIMENSION) for request in requests}


def test_target_only_decides_for_every_arm() -> None:
    evidence = make_evidence()
    lengths = {arm.name: 500 for arm in evidence.manifest.arms} | {BASELINE_ARM: 33}
    assert labels(with_lengths(evidence, lengths, Outcome.SUCCESS)) == {"33-128"}


def test_what_target_only_never_answered_has_no_label() -> None:
    evidence = make_evidence()
    lengths = dict.fromkeys((arm.name for arm in evidence.manifest.arms), 33)
    assert labels(with_lengths(evidence, lengths, Outcome.TRUNCATED)) == {None}


def test_a_declared_label_wins() -> None:
    evidence = make_evidence()
    declared = {
        name: tuple(r.model_copy(update={"strata": {DIMENSION: "mine"}}) for r in requests)
        for name, requests in evidence.labels.items()
    }
    assert labels(evidence.model_copy(update={"labels": declared})) == {"mine"}


def test_the_report_has_the_stratum() -> None:
    strata = {name for names in build_report(make_evidence()).strata.values() for name in names}
    assert any(name.startswith(f"{DIMENSION}=") for name in strata)


def test_buckets_hold_their_last_number() -> None:
    assert [bucket(n, (32, 128)) for n in (1, 32, 33, 128, 129)] == ["1-32", "1-32", "33-128", "33-128", "over-128"]
