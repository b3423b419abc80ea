"""``verdraft model``: what a person reads, and what a script reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.worker.model_directory import CONFIG, make_model, put, tokenizer_json
from worker.model_commands import app
from worker.models import model_digest


@pytest.fixture
def model_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sound models and a broken one; the hub's cache is empty."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("VERDRAFT_MODEL_ROOT", str(tmp_path / "models"))
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path / "home"))
    make_model(tmp_path / "models" / "target")
    make_model(
        tmp_path / "models" / "draft",
        tokenizer=tokenizer_json(("<end>", "a", "x", "c")),
        config=CONFIG | {"max_position_embeddings": 32},
    )
    put(tmp_path / "models" / "broken" / "config.json", "{")
    return tmp_path / "models"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def answer(*arguments: str) -> Any:
    finished = run(*arguments, "--json")
    assert finished.exit_code == 0, finished.output
    return json.loads(finished.stdout)


def test_the_list_has_references_and_reasons(model_root: Path) -> None:
    finished = run("list")
    assert finished.exit_code == 0
    for alias in ("draft", "target"):
        assert f"local:{alias}@sha256:{model_digest(model_root / alias)}\n" in finished.stdout
    assert "  LlamaForCausalLM: 56 parameters" in finished.stdout
    assert "broken: cannot be used\n  config.json is not JSON" in finished.stdout


def test_the_list_for_scripts(model_root: Path) -> None:
    broken, draft, target = answer("list")
    assert (broken["name"], broken["usable"]) == ("broken", False)
    assert "config.json" in broken["reason"]
    assert (draft["name"], target["name"]) == ("draft", "target")
    assert (target["usable"], target["parameters"], target["not_known"]) == (True, 56, {})


@pytest.mark.parametrize("form", ["target", "local:target", "local:target@sha256:{digest}"])
def test_one_model_by_alias_or_reference(model_root: Path, form: str) -> None:
    digest = model_digest(model_root / "target")
    facts = answer("inspect", form.format(digest=digest))
    assert facts["ref"] == f"local:target@sha256:{digest}"
    assert facts["special_tokens"] == {"eos_token": "<end>"}


def test_one_model_for_a_person(model_root: Path) -> None:
    put(model_root / "target" / "tokenizer.json", "{}")
    finished = run("inspect", "target")
    lines = finished.stdout.splitlines()
    assert "provenance.licence: MIT" in lines
    assert "rope.rope_theta: 10000.0" in lines
    assert "eos_token_ids: [0, 3]" in lines
    assert any(line.startswith("vocabulary_sha256 is not known: tokenizer.json") for line in lines)


def test_two_models_show_only_what_differs(model_root: Path) -> None:
    finished = run("inspect", "target", "draft")
    assert finished.exit_code == 0
    assert "context, max_position_embeddings:\n  first:  64\n  second: 32\n" in finished.stdout
    assert "1 ids stand for different tokens, the first of them:\n  2: 'b' | 'x'\n" in finished.stdout
    assert "rope" not in finished.stdout
    document = answer("inspect", "target", "draft")
    assert set(document["differences"]) == {"tokenizer", "context"}
    assert document["differences"]["context"] == {"max_position_embeddings": [64, 32]}
    assert document["tokens"] == {"ids": 1, "examples": [[2, "'b'", "'x'"]]}


def test_two_equal_models_are_said_to_be_equal(model_root: Path) -> None:
    make_model(model_root / "copy")
    assert "no difference in tokenizer" in run("inspect", "target", "copy").stdout
    assert answer("inspect", "target", "copy")["differences"] == {}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("nowhere", "there is no local model nowhere (here: broken, draft, target)"),
        ("broken", "local model broken: config.json is not JSON"),
        ("someone/model@main", "it names no model by a full commit or a digest"),
        (f"local:target@sha256:{'0' * 64}", "local model target has sha256:"),
        (f"someone/model@{'0' * 40}", "is not in this host's model cache"),
    ],
)
def test_what_cannot_be_inspected_is_a_problem_with_a_remedy(model_root: Path, ref: str, message: str) -> None:
    finished = run("inspect", ref, "--json")
    assert finished.exit_code == 1
    [problem] = json.loads(finished.stdout)["problems"]
    assert problem["field"] == "ref"
    assert message in problem["message"]
    assert problem["remedy"]
    spoken = run("inspect", ref)
    assert spoken.exit_code == 1
    assert message in spoken.stderr
