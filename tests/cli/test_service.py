"""The command against a real service: a real socket and a real Postgres."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.factories import make_trace, manifest_document

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def manifest_file(tmp_path: Path) -> Path:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest_document()))
    return path


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(make_trace().encode())
    return path


def test_upload_submit_list_and_cancel(
    verdraft: Verdraft, live_server: LiveServer, manifest_file: Path, trace_file: Path
) -> None:
    url = ("--url", live_server.url)
    assert verdraft("workload", "upload", trace_file, *url).exit_code == 0
    submitted = verdraft("submit", manifest_file, *url)
    assert submitted.exit_code == 0, submitted.output
    identity = submitted.stdout.splitlines()[0].removeprefix("id: ")
    assert verdraft("submit", manifest_file, *url).stdout == submitted.stdout
    assert identity[:12] in verdraft("list", *url).stdout
    assert json.loads(verdraft("list", "--json", *url).stdout)[0]["id"] == identity
    assert "CANCELED" in verdraft("cancel", identity[:12], *url).stdout


def test_every_command_answers_as_one_json_document(
    verdraft: Verdraft, live_server: LiveServer, manifest_file: Path, trace_file: Path, tmp_path: Path
) -> None:
    def told(*arguments: object) -> dict[str, Any]:
        return json.loads(verdraft(*arguments, "--json", "--url", live_server.url).stdout)

    assert told("workload", "upload", trace_file)["digest"]
    identity = told("submit", manifest_file)["id"]
    assert told("cancel", identity)["state"] == "CANCELED"
    assert told("watch", identity)["experiment"] == identity
    assert told("report", identity)["interim"]
    assert told("bundle", identity, "--output", tmp_path / "bundle.tar.zst")["root"]
    assert told("gate", identity)["problems"]
    assert told("delete", identity)["problems"][0]["field"] == "--yes"
    assert told("delete", identity, "--yes")
    assert told("watch", identity)["status"] == 404


def test_a_gate_without_a_verdict_is_refused(
    verdraft: Verdraft, live_server: LiveServer, manifest_file: Path, trace_file: Path
) -> None:
    url = ("--url", live_server.url)
    verdraft("workload", "upload", trace_file, *url)
    identity = verdraft("submit", manifest_file, *url).stdout.split()[1]
    gate = verdraft("gate", identity, *url)
    assert gate.exit_code == 1
    assert "no verdict" in gate.stderr


@pytest.mark.parametrize(("option", "start"), [("--markdown", "# "), ("--html", "<!doctype html>")])
def test_the_report_as_a_document(
    verdraft: Verdraft, live_server: LiveServer, manifest_file: Path, trace_file: Path, *, option: str, start: str
) -> None:
    url = ("--url", live_server.url)
    verdraft("workload", "upload", trace_file, *url)
    identity = verdraft("submit", manifest_file, *url).stdout.split()[1]
    assert verdraft("report", identity, option, *url).stdout.startswith(start)
    assert verdraft("report", "f" * 64, option, *url).exit_code == 1


def test_a_manifest_whose_trace_is_missing_is_refused_by_field(
    verdraft: Verdraft, live_server: LiveServer, manifest_file: Path
) -> None:
    refused = verdraft("submit", manifest_file, "--url", live_server.url)
    assert refused.exit_code == 1
    assert "workloads[0].trace" in refused.stderr


def test_an_unknown_experiment_is_problem_details(verdraft: Verdraft, live_server: LiveServer) -> None:
    refused = verdraft("report", "f" * 64, "--json", "--url", live_server.url)
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["status"] == 404


def test_a_service_that_is_not_there_says_what_to_do(verdraft: Verdraft) -> None:
    refused = verdraft("list", "--url", NOBODY)
    assert refused.exit_code == 1
    assert "verdraft up" in refused.stderr
