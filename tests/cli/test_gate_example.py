"""The workflow and the page that people copy from: they parse, and name commands and options that there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from app.cli import app
from app.domain.manifest import Manifest
from app.domain.requirement import Requirement
from app.gate_command import REQUIREMENTS, GateExit
from app.settings import PROJECT_ROOT

EXAMPLE = PROJECT_ROOT / "examples/ci/github-actions.yaml"
PAGE = PROJECT_ROOT / "docs/gate.md"


def commands() -> list[list[str]]:
    """Every call of ``verdraft`` in the workflow, as words; expansions of the shell are one word."""
    workflow: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    lines = "\n".join(step.get("run", "") for step in steps).replace("\\\n", " ").splitlines()
    plain = [re.sub(r'"?\$\([^)]*\)"?|\$\{[^}]*\}', "X", line).partition(">")[0] for line in lines]
    return [shlex.split(line)[1:] for line in plain if line.strip().startswith("verdraft ")]


def options_of(name: str) -> set[str]:
    group: Any = get_command(app)
    command = group.get_command(None, name)
    assert command is not None, name
    return {option for parameter in command.params for option in parameter.opts}


def test_the_workflow_is_one_that_github_would_read() -> None:
    workflow: dict[Any, Any] = yaml.safe_load(EXAMPLE.read_text())
    assert {"name", "permissions", "jobs"} <= set(workflow)
    assert True in workflow  # YAML 1.1 reads the key `on` as a truth value
    assert all("uses" in step or "run" in step for job in workflow["jobs"].values() for step in job["steps"])


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_its_commands_and_options_exist(words: list[str]) -> None:
    assert {word for word in words if word.startswith("--")} <= options_of(words[0])


def test_it_gates() -> None:
    assert [words[0] for words in commands()] == ["preflight", "submit", "gate", "bundle"]


def test_the_page_names_every_status_requirement_and_option() -> None:
    text = PAGE.read_text()
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == {*map(int, GateExit), 130}
    assert all(f"`{word}`" in text for word in REQUIREMENTS)
    assert all(option in text for option in options_of("gate") - {"--help"})


def test_the_page_says_of_each_word_what_the_code_does() -> None:
    rows = [
        line.split("|")[1:-1]
        for line in PAGE.read_text().splitlines()
        if line.startswith(("| `HELPS", "| `EQ", "| `not"))
    ]
    words = ("HELPS", "EQUIVALENT", "INCONCLUSIVE", "HURTS", "INVALID")
    for cells in rows:
        require = Requirement(re.findall(r"`([^`]+)`", cells[0])[0])
        assert {w for w, cell in zip(words, cells[1:], strict=False) if "yes" in cell} == set(require.words)
    assert len(rows) == len(Requirement)
    assert tuple(Requirement) == REQUIREMENTS


def test_what_the_page_says_of_the_manifest_is_true() -> None:
    assert {"schedule_seed", "runtime", "blocks"} <= set(Manifest.model_fields)
    assert Path(EXAMPLE).name in PAGE.read_text()
