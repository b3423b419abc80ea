"""Target-only against itself: judged by the same rules, so that every effect that it finds is a false alarm."""

from typing import Any

import pytest

from app.domain.errors import ManifestRefused
from app.domain.host_noise import AGAIN, HostNoise, calibration_of, host_noise
from app.domain.manifest import Manifest
from app.domain.report import Report, build_report
from app.domain.vocabulary import Purpose, VerdictWord
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest, manifest_document


def calibration(blocks: int = 5) -> Manifest:
    return calibration_of(make_manifest(), blocks)


def measured(**dials: Any) -> Report:
    return build_report(make_evidence(Dials(manifest=calibration(), **dials)))


def noise_of(**dials: Any) -> HostNoise:
    found = host_noise(measured(**dials))
    assert found is not None
    return found


def test_the_calibration_differs_from_its_manifest_in_nothing_but_arms_blocks_and_purpose() -> None:
    manifest, found = make_manifest(), calibration(blocks=7)
    assert [(arm.name, arm.speculates) for arm in found.arms] == [("target-only", False), (AGAIN, False)]
    assert (found.name, found.blocks, found.purpose) == ("known-truth-aa", 7, Purpose.HOST_CALIBRATION)
    same = {"workloads", "loads", "serving", "sampling", "hardware", "runtime", "target_model", "slo", "margins"}
    assert found.model_dump(include=same) == manifest.model_dump(include=same)
    assert calibration_of(manifest, 7).digest == found.digest


def test_equal_arms_give_no_alarm_and_say_what_could_be_found() -> None:
    found = noise_of(block_noise=0.01, seed=3)
    assert [c.word for c in found.conditions] == [VerdictWord.EQUIVALENT] * 2
    assert (found.false_alarms.value, found.false_alarms.n, found.invalid) == (0.0, 2, 0)
    assert found.detectable is not None
    findable = f"with 5 blocks effects of {found.detectable:.1%} are found everywhere"
    assert found.words == f"0 of 2 equal pairs were called different; {findable}"


def test_a_noisy_host_says_so() -> None:
    found = noise_of(block_noise=0.2, seed=3)
    assert "too noisy for a margin of 5%" in found.words
    assert found.detectable is not None
    assert found.detectable > 0.05


def test_a_difference_that_is_not_there_by_chance_is_counted_as_an_alarm() -> None:
    """The second arm really is faster here, as on a host that favours whoever comes second."""
    found = noise_of(speedup={"low": 1.5})
    assert found.false_alarms.value == 0.5
    assert found.words.startswith("1 of 2 equal pairs were called different")


def test_nothing_is_recommended_and_no_draft_is_missed() -> None:
    report = measured()
    assert report.recommendation.arm is None
    assert report.recommendation.sentence.startswith("Host calibration")
    assert not any("speculat" in reason for v in report.verdicts for reason in v.reasons)
    assert {m.draft_step_ms.why for m in report.mechanism} == {"there is no draft"}


def test_other_reports_and_unfinished_ones_tell_no_noise() -> None:
    assert host_noise(build_report(make_evidence(Dials()))) is None
    assert host_noise(measured(blocks_run=3)) is None


@pytest.mark.parametrize(
    ("arms", "field"),
    [
        ([{"name": "target-only", "speculation": {"method": "target_only"}}], "arms"),
        (manifest_document()["arms"], "arms[1].speculation.method"),
    ],
)
def test_an_aa_experiment_has_equal_arms_and_two_of_them(arms: list[object], field: str) -> None:
    with pytest.raises(ManifestRefused) as refused:
        make_manifest(purpose="host_calibration", arms=arms)
    assert [problem.field for problem in refused.value.problems] == [field]


def test_two_baselines_are_for_calibration_alone() -> None:
    with pytest.raises(ManifestRefused):
        make_manifest(arms=[arm.model_dump(mode="json", exclude_none=True) for arm in calibration().arms])
