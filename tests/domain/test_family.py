"""What the manifest declares decides what is decided on: the family of comparisons, and the purpose."""

from typing import Any

from app.domain.comparison import family_size
from app.domain.report import Report, build_report
from app.domain.vocabulary import VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest, manifest_document

FAST = {"low": 1.5, "high": 1.5}


def _arms(**speculation: Any) -> list[dict[str, Any]]:
    ngram = {"method": "ngram", "num_speculative_tokens": 4}
    return [*manifest_document()["arms"], {"name": "other", "speculation": ngram | speculation}]


def _report(**changes: Any) -> Report:
    return build_report(make_evidence(Dials(speedup=FAST, manifest=make_manifest(**changes))))


def test_by_default_every_arm_is_in_the_family() -> None:
    report = _report(arms=_arms())
    assert family_size(report.manifest) == 4
    assert all(c.p_holm is not None for c in report.comparisons if c.primary)
    assert not any(v.exploratory for v in report.verdicts)


def test_an_arm_outside_the_family_is_shown_but_not_decided_on() -> None:
    report = _report(arms=_arms(), family={"comparisons": ["ngram"]})
    assert family_size(report.manifest) == 2
    outside = [v for v in report.verdicts if v.arm == "other"]
    assert all(v.exploratory and "family" in v.reasons[0] for v in outside)
    assert all(v.ratio is not None for v in outside)
    assert all(c.p_holm is None for c in report.comparisons if c.arm == "other")
    assert {v.exploratory for v in report.verdicts if v.arm == "ngram"} == {False}
    assert report.recommendation.arm == "ngram"


def test_a_smaller_family_has_narrower_simultaneous_intervals() -> None:
    wide, narrow = _report(arms=_arms()), _report(arms=_arms(), family={"comparisons": ["ngram"]})
    widths = [
        [
            c.simultaneous_high - c.simultaneous_low
            for c in report.comparisons
            if c.primary and c.arm == "ngram" and c.simultaneous_high is not None and c.simultaneous_low is not None
        ]
        for report in (wide, narrow)
    ]
    assert all(a > b for a, b in zip(*widths, strict=True))


def test_a_lossy_arm_is_never_said_to_help() -> None:
    lossy = {"rejection_sampling": "synthetic", "synthetic_acceptance_length": 3}
    report = _report(arms=_arms(**lossy), purpose="overhead_profiling")
    words = {v.arm: (v.word, " ".join(v.reasons)) for v in report.verdicts}
    assert words["other"][0] is VerdictWord.INVALID
    assert "lossy" in words["other"][1]
    assert report.recommendation.arm is None
    assert "Overhead profiling" in report.recommendation.sentence


def test_what_is_deployed_is_compared_and_not_decided_on() -> None:
    deployed = {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}
    report = _report(arms=[*manifest_document()["arms"], deployed])
    assert family_size(report.manifest) == 2
    compared = [c for c in report.comparisons if c.primary and c.arm == "deployed"]
    assert compared
    assert all(c.p_holm is None for c in compared)
    assert all(v.exploratory for v in report.verdicts if v.arm == "deployed")
    assert not any(v.exploratory for v in report.verdicts if v.arm != "deployed")
