"""The gate as a CI job runs it: exit statuses, the summary, JSON, a baseline, and a bundle without any service."""

import json
from pathlib import Path

import pytest

from app.domain.evidence import labels_of
from app.domain.report import Report, build_report
from app.domain.trace import Trace
from app.gate_command import GateExit
from tests.bundle.making import changed, make_bundle
from tests.bundle.test_bundle import make_workload
from tests.cli.conftest import Verdraft
from tests.cli.test_expiry import serving
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest
from tests.factories_report import sample_report

ID = "f" * 64
OLDER = "vllm 0.31.0 sha256:" + "8" * 64


def good(speedup: float = 1.3, **changes: object) -> Report:
    manifest = make_manifest(**changes)
    return build_report(make_evidence(Dials(manifest=manifest, speedup={"low": speedup, "high": speedup})))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace: Trace = make_workload()
    manifest = make_manifest(workloads=[{"name": "copy", "trace": trace.digest}])
    evidence = make_evidence(Dials(manifest=manifest, requests=12, speedup={"low": 1.3, "high": 1.3}))
    evidence = evidence.model_copy(update={"labels": {"copy": labels_of(trace)}})
    return make_bundle(tmp_path_factory.mktemp("bundle"), evidence, {trace.digest: trace})


@pytest.mark.parametrize(
    ("report", "require", "status"),
    [
        (good(1.3), "HELPS", GateExit.MET),
        (good(1.0), "EQUIVALENT-or-better", GateExit.MET),
        (good(1.0), "HELPS", GateExit.NOT_MET),
        (good(0.7), "not-HURTS", GateExit.NOT_MET),
        (sample_report(complete=4), "HELPS", GateExit.NO_VERDICT),
    ],
    ids=["helps", "equivalent", "not-helping", "hurts", "interim"],
)
def test_the_exit_status_is_the_answer(verdraft: Verdraft, report: Report, require: str, status: GateExit) -> None:
    with serving(report) as url:
        assert verdraft("gate", ID, "--require", require, "--url", url).exit_code == status


def test_undecided_passes_only_where_that_is_said(verdraft: Verdraft) -> None:
    one = ("--arm", "ngram-k4", "--workload", "open", "--load", "high")
    with serving(sample_report()) as url:
        assert verdraft("gate", ID, *one, "--url", url).exit_code == GateExit.NOT_MET
        assert verdraft("gate", ID, *one, "--require", "not-HURTS", "--url", url).exit_code == GateExit.MET


@pytest.mark.parametrize(
    "options",
    [
        ("--require", "better"),
        ("--load", "low", "--regime", "latency"),
        ("--regime", "night"),
        ("--arm", "nobody"),
        ("--stratum", "task=none"),
    ],
)
def test_a_wrong_option_is_no_verdict_on_the_engine(verdraft: Verdraft, options: tuple[str, ...]) -> None:
    with serving(sample_report()) as url:
        assert verdraft("gate", ID, *options, "--url", url).exit_code == GateExit.USAGE


def test_a_service_that_is_not_there_and_a_missing_file(verdraft: Verdraft) -> None:
    refused = verdraft("gate", ID, "--json", "--url", "http://127.0.0.1:1")
    assert refused.exit_code == GateExit.NO_VERDICT
    assert json.loads(refused.stdout)["problems"]
    assert verdraft("gate", "not-there.tar.zst").exit_code == GateExit.USAGE


def test_the_summary_is_appended_and_escaped(verdraft: Verdraft, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    report = good(1.0).model_copy(update={"name": "x|y<script>"})
    with serving(report) as url:
        verdraft("gate", ID, "--require", "HELPS", "--markdown", summary, "--url", url)
    text = summary.read_text()
    assert text.startswith("before\n### Verdraft: FAILED: x\\|y\\<script\\>")
    rows = [line for line in text.splitlines() if "EQUIVALENT does not meet HELPS" in line]
    assert len(rows) == len(report.verdicts)
    assert f"/experiments/{report.experiment[:12]}" in text


def test_a_baseline_tells_what_changed(verdraft: Verdraft, tmp_path: Path, bundle: Path) -> None:
    now = good(0.7, runtime=OLDER)
    summary = tmp_path / "summary.md"
    with serving(now) as url:
        result = verdraft("gate", ID, "--against", bundle, "--markdown", summary, "--json", "--url", url)
    told = json.loads(result.stdout)
    assert result.exit_code == told["exit_code"] == GateExit.NOT_MET
    assert "engine" in {pin["what"] for pin in told["against"]["pins"]}
    assert {(line["baseline_word"], line["word"]) for line in told["lines"]} == {("HELPS", "HURTS")}
    assert "never divided by each other" in summary.read_text()


def test_a_bundle_needs_no_service(verdraft: Verdraft, bundle: Path) -> None:
    nowhere = ("--url", "http://127.0.0.1:1")
    assert verdraft("gate", bundle, "--require", "HELPS", *nowhere).exit_code == GateExit.MET
    result = verdraft("gate", bundle, "--require", "HELPS", "--stratum", "task=a", "--json", *nowhere)
    assert {line["stratum"] for line in json.loads(result.stdout)["lines"]} == {"task=a"}


def test_a_bundle_that_does_not_verify_passes_nothing(verdraft: Verdraft, bundle: Path) -> None:
    def edit(directory: Path) -> None:
        report = directory / "report.json"
        report.write_bytes(report.read_bytes().replace(b'"HELPS"', b'"HURTS"', 1))

    result = verdraft("gate", changed(bundle, edit, members=True, runs=True), "--require", "HELPS")
    assert result.exit_code == GateExit.NO_VERDICT
    assert "cannot be trusted" in result.stderr
