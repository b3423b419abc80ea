import io
import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.lifecycle import RunState
from app.interop.exports.outline import RunKey
from tests.factories import make_observation
from tests.interop.evidence import exported, make_evidence, make_run, small_evidence

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "interop" / "llmd_benchmark_report_0_2_1.schema.json").read_bytes()
)
CLOSED = {"name": "low", "kind": "closed_loop", "regime": "serving", "clients": 3}


def reports(evidence: ExperimentEvidence) -> list[dict[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(exported(evidence, "llm-d"))) as archive:
        return [json.loads(archive.read(name)) for name in archive.namelist()]


@pytest.mark.parametrize(
    "evidence",
    [
        small_evidence(),
        make_evidence(make_run([], state=RunState.FAILED, counters=None)),
        make_evidence(make_run([make_observation(prompt_tokens=None)]), loads=[CLOSED]),
    ],
    ids=["two requests", "none", "closed loop"],
)
def test_a_report_is_one_by_llm_ds_own_schema(evidence: ExperimentEvidence) -> None:
    found = reports(evidence)
    assert len(found) == len(evidence.runs)
    for report in found:
        jsonschema.validate(report, SCHEMA, format_checker=jsonschema.FormatChecker())


def test_the_schema_would_refuse_a_member_of_ours() -> None:
    (report, *_) = reports(small_evidence())
    with pytest.raises(jsonschema.ValidationError, match="verdraft"):
        jsonschema.validate({**report, "verdraft": {}}, SCHEMA)


def test_figures_count_from_the_send_and_ours_from_the_due_time() -> None:
    late = make_observation(due_ns=0, sent_ns=5_000_000)
    (report,) = reports(make_evidence(make_run([late])))
    aggregate, ours = report["results"]["request_performance"]["aggregate"], report["results"]["profiling"]["verdraft"]
    latency = aggregate["latency"]
    assert (latency["time_to_first_token"]["units"], latency["time_to_first_token"]["mean"]) == ("s", 0.015)
    assert latency["request_latency"]["p50"] == pytest.approx(0.045)
    assert latency["normalized_time_per_output_token"]["mean"] == pytest.approx(0.045 / 4)
    assert latency["time_per_output_token"]["mean"] == pytest.approx(0.01)
    assert ours["from_due"]["ttft"]["mean"] == pytest.approx(0.020)
    assert aggregate["throughput"]["output_token_rate"]["mean"] == pytest.approx(4 / 0.060)
    assert (ours["speculation"]["acceptance_rate"], ours["speculation"]["mean_length_incl"]) == (0.25, 2.0)


def test_a_run_is_named_by_its_experiment_and_place() -> None:
    evidence = small_evidence()
    void, counted = reports(evidence)
    assert void["run"]["eid"] == evidence.manifest.digest
    assert void["run"]["uid"] != counted["run"]["uid"]
    assert "not counted" in void["run"]["description"]
    engine = counted["scenario"]["stack"][0]
    assert (engine["standardized"]["tool_version"], engine["native"]["args"]) == (
        "0.32.0",
        {"argv": ["vllm", "serve"]},
    )
    requests = counted["results"]["request_performance"]["aggregate"]["requests"]
    assert (requests["total"], requests["failures"], requests["incomplete"]) == (2, 0, 1)


def test_one_run_is_a_document_of_its_own() -> None:
    report = json.loads(exported(small_evidence(), "llm-d", RunKey(0, "ngram-k4", "tasks", "low", 2)))
    assert report["version"] == "0.2.1"
