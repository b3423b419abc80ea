import json
from pathlib import Path

import pytest
import yaml

from app.settings import PROJECT_ROOT
from tests.cli.conftest import Verdraft
from tests.factories import make_trace

EXAMPLE = PROJECT_ROOT / "examples/single-arm.yaml"


def test_validate_prints_the_digest(verdraft: Verdraft) -> None:
    shown = verdraft("manifest", "validate", EXAMPLE, "--json")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["name"] == "ngram-on-edits"


def test_validate_names_the_field_and_a_remedy(verdraft: Verdraft, tmp_path: Path) -> None:
    document = yaml.safe_load(EXAMPLE.read_text()) | {"colour": "red"}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document))
    refused = verdraft("manifest", "validate", path, "--json")
    assert refused.exit_code == 1
    (problem,) = json.loads(refused.stdout)["problems"]
    assert problem["field"] == "colour"
    assert problem["remedy"]
    assert "colour" in verdraft("manifest", "validate", path).stderr


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe", b"[1, 2]", b"", b"name: &a [*a]"])
def test_what_is_no_manifest_is_refused_in_words(verdraft: Verdraft, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_bytes(content)
    refused = verdraft("manifest", "validate", path)
    assert refused.exit_code == 1
    assert "refused" in refused.stderr
    assert "Traceback" not in refused.output


def test_a_missing_file_is_a_usage_error(verdraft: Verdraft, tmp_path: Path) -> None:
    assert verdraft("manifest", "validate", tmp_path / "none.yaml").exit_code == 2


def test_show_gives_every_arm_in_every_block(verdraft: Verdraft) -> None:
    shown = json.loads(verdraft("manifest", "show", EXAMPLE).stdout)
    assert [sorted(order) for order in shown["schedule"].values()] == [["ngram", "target-only"]] * 5


def test_workload_show_counts_strata_by_load(verdraft: Verdraft, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    trace = make_trace(requests=3)
    path.write_bytes(trace.encode())
    shown = json.loads(verdraft("workload", "show", path).stdout)
    assert shown["digest"] == trace.digest
    assert sum(sizes["low"] for name, sizes in shown["strata"].items() if name.startswith("task=")) == 3


def test_a_broken_workload_is_refused_by_line(verdraft: Verdraft, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(make_trace().encode() + b"{\n")
    refused = verdraft("workload", "show", path)
    assert refused.exit_code == 1
    assert "line" in refused.stderr


def test_a_file_that_is_no_bundle_does_not_verify(verdraft: Verdraft, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.zst"
    path.write_bytes(b"not a bundle")
    assert verdraft("verify", path).exit_code == 1


def test_a_workload_is_read_as_strictly_as_the_service_reads_it(verdraft: Verdraft, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(make_trace().encode().replace(b'"due_ns":0', b'"due_ns":0,"due_ns":1', 1))
    refused = verdraft("workload", "show", path)
    assert refused.exit_code == 1
    assert "due_ns" in refused.stderr
    assert "twice" in refused.stderr
