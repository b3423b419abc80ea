"""What a runtime says of itself, asked with its own Python: once per installation, and never guessed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.domain.capability import RuntimeCapability
from app.domain.engine_version import KNOWN_SCHEMAS, parse_engine_version
from app.settings import Settings
from tests.fakes.runtime import fake_answer, make_fake_runtime
from worker.runtimes import ask_engine, asked
from worker.runtimes.asked import SCRIPT, EngineAnswer, cache_key, capability_of
from worker.runtimes.registry import RuntimeIdentity, inspect_runtime

ANSWERS = Path(__file__).parents[1] / "fixtures" / "runtimes"


@pytest.fixture
def said() -> list[str]:
    """What the asker told its caller."""
    return []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _runtime(tmp_path: Path, **dials: Any) -> RuntimeIdentity:
    return inspect_runtime(make_fake_runtime(tmp_path / "runtimes" / "fake", **dials))


def _answer_with(runtime: RuntimeIdentity, **changes: Any) -> None:
    (runtime.root / "answer.json").write_text(json.dumps(fake_answer() | changes))


def test_the_answer_is_published_under_the_manifests_name(tmp_path: Path, home: Path) -> None:
    runtime = _runtime(tmp_path)
    found = capability_of(runtime, home)
    assert found.unavailable is None
    assert (found.ref, found.digest, found.version) == (runtime.ref, runtime.digest, "0.32.0")
    assert {"ngram", "draft_model", "eagle3", "suffix"} <= set(found.methods)
    assert found.speculative_keys["num_speculative_tokens"] == "int"
    assert found.rejection_sample_methods == ("standard", "synthetic", "block")
    assert found.draft_sample_methods == ("greedy", "probabilistic")
    assert "--speculative-config" in found.serve_flags
    assert "LlamaForCausalLM" in found.architectures
    assert "LlamaForCausalLM" in found.eagle3_architectures
    assert found.per_request_speculation
    assert found.not_found == {}


def test_it_is_asked_once_and_then_read(tmp_path: Path, home: Path, said: list[str]) -> None:
    runtime = _runtime(tmp_path)
    first = capability_of(runtime, home, said.append)
    (runtime.root / "answer.json").unlink()
    assert capability_of(runtime, home, said.append) == first
    assert len(said) == 1
    assert "fake" in said[0]


def test_another_installation_is_asked_anew(tmp_path: Path, home: Path, said: list[str]) -> None:
    capability_of(_runtime(tmp_path), home, said.append)
    (tmp_path / "runtimes" / "fake" / "lib" / "python3.11" / "site-packages" / "torch.py").write_text("edited")
    capability_of(inspect_runtime(tmp_path / "runtimes" / "fake"), home, said.append)
    assert len(said) == 2


def test_two_versions_say_different_things_side_by_side(tmp_path: Path, home: Path) -> None:
    new = capability_of(inspect_runtime(make_fake_runtime(tmp_path / "new")), home)
    old = capability_of(inspect_runtime(make_fake_runtime(tmp_path / "old", version="0.27.0", suffix=False)), home)
    assert (new.version, old.version) == ("0.32.0", "0.27.0")
    assert new.per_request_speculation
    assert not old.per_request_speculation
    assert new.suffix_decoding
    assert not old.suffix_decoding
    assert "suffix" in old.methods


def test_a_runtime_that_cannot_be_asked_is_published_with_the_reason(
    tmp_path: Path, home: Path, said: list[str]
) -> None:
    runtime = _runtime(tmp_path, answers=False)
    found = capability_of(runtime, home, said.append)
    assert "cannot be imported" in str(found.unavailable)
    assert found.methods == found.serve_flags == ()
    assert found.suffix_decoding is None
    assert not (home / "capabilities").exists()
    assert capability_of(runtime, home, said.append) == found
    assert len(said) == 2, "asked again by the same process"


def test_a_failure_is_not_kept_for_the_next_process(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = _runtime(tmp_path, answers=False)
    assert capability_of(runtime, home).unavailable
    _answer_with(runtime)
    monkeypatch.setattr(asked, "_failures", {})  # as in a new process
    assert capability_of(runtime, home).unavailable is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": "0.27.0"}, "it is vLLM 0.27.0, and was registered as 0.32.0"),
        ({"not_found": {"methods": "SpeculativeConfig is nowhere"}}, "SpeculativeConfig is nowhere"),
        ({"serve_flags": "all"}, "not understood"),
        ({"surprise": 1}, "not understood"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_reason(
    tmp_path: Path, home: Path, changes: dict[str, Any], why: str
) -> None:
    runtime = _runtime(tmp_path)
    _answer_with(runtime, **changes)
    assert why in str(capability_of(runtime, home).unavailable)
    assert not (home / "capabilities").exists()


def test_what_a_version_does_not_state_is_named_and_not_fatal(tmp_path: Path, home: Path) -> None:
    runtime = _runtime(tmp_path)
    _answer_with(runtime, draft_sample_methods=[], not_found={"draft_sample_methods": "no such field"})
    found = capability_of(runtime, home)
    assert found.unavailable is None
    assert found.draft_sample_methods == ()
    assert found.not_found == {"draft_sample_methods": "no such field"}


def test_one_that_hangs_is_given_up_with_its_children(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "TIMEOUT_S", 0.2)
    runtime = _runtime(tmp_path)
    (runtime.root / "bin" / "python").write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    assert "no answer within 0.2 s" in str(capability_of(runtime, home).unavailable)
    child = int((tmp_path / "child").read_text())
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()


def test_a_runtime_without_a_python_is_a_reason(tmp_path: Path, home: Path) -> None:
    runtime = _runtime(tmp_path)
    (runtime.root / "bin" / "python").unlink()
    assert "does not start" in str(capability_of(runtime, home).unavailable)


def test_the_environment_is_ours_and_not_the_callers(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/evil")
    monkeypatch.setenv("HF_TOKEN", "secret")
    runtime = _runtime(tmp_path)
    (runtime.root / "bin" / "python").write_text(f"#!/bin/sh\nenv > {tmp_path}/env\nexit 1\n")
    capability_of(runtime, home)
    seen = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert "PYTHONPATH" not in seen
    assert "HF_TOKEN" not in seen
    assert seen["HF_HUB_OFFLINE"] == "1"


def test_the_key_knows_the_question_and_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = _runtime(tmp_path)
    before = cache_key(runtime)
    monkeypatch.setattr("platform.release", lambda: "another kernel")
    assert cache_key(runtime) != before
    monkeypatch.undo()
    (tmp_path / "script.py").write_text("another question")
    monkeypatch.setattr(asked, "SCRIPT", tmp_path / "script.py")
    assert cache_key(runtime) != before


@pytest.mark.parametrize("path", sorted(ANSWERS.glob("*.json")), ids=lambda path: path.stem)
def test_what_real_engines_said_is_understood(path: Path) -> None:
    answer = EngineAnswer.model_validate_json(path.read_text())
    assert answer.version.partition("+")[0] == path.stem
    assert answer.not_found == {}
    schema = KNOWN_SCHEMAS[parse_engine_version(answer.version)]
    assert schema.missing_flags(answer.serve_flags) == ()
    assert schema.per_request_speculation == answer.per_request_speculation
    assert RuntimeCapability.model_fields.keys() >= EngineAnswer.model_fields.keys() - {"protocol"}


@pytest.mark.real_engine
def test_the_real_runtime_says_what_it_can_do(tmp_path: Path) -> None:
    found = capability_of(inspect_runtime(Settings().runtime_root / "cpu"), tmp_path)
    assert found.unavailable is None
    assert found.not_found == {}
    recorded = EngineAnswer.model_validate_json((ANSWERS / "0.32.0.json").read_text())
    for fact in ("methods", "speculative_keys", "rejection_sample_methods", "serve_flags", "architectures"):
        assert getattr(found, fact) == getattr(recorded, fact), fact
    assert (found.torch, found.cuda, found.device) == ("2.13.0+cpu", "none", "cpu")


def test_the_question_imports_nothing_of_ours() -> None:
    imported = [line.split()[1] for line in SCRIPT.read_text().splitlines() if line.startswith(("import ", "from "))]
    assert not [name for name in imported if name.partition(".")[0] in {"app", "worker", "tests", "pydantic"}]
    assert ask_engine.PROTOCOL == asked.PROTOCOL
    assert os.access(SCRIPT, os.R_OK)
