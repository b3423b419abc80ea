"""The command to deploy is what was measured, and can be copied."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from app.domain.deployment import serve_command, to_do_before
from app.domain.launch import OPTIONAL_FLAGS, PER_REQUEST_SPECULATION_FLAG, PINNED_ENVIRONMENT
from app.domain.manifest import Manifest
from tests.domain.test_launch import manifest, options, spec

ROOT = Path(__file__).resolve().parents[2]
MEASURING = {
    "--served-model-name",
    "--uds",
    "--enable-per-request-metrics",
    "--enable-prompt-tokens-details",
    PER_REQUEST_SPECULATION_FLAG,
    *OPTIONAL_FLAGS,
}
"""What a launch has only so that it can be measured."""
PATHS = {"--tokenizer", "--speculative-config"}
"""Values that name a directory of the worker."""
DECIDING = {*PINNED_ENVIRONMENT} - {"VLLM_CPU_OMP_THREADS_BIND"}
"""Variables that decide how it is served, but for the cores of the host."""
HUB = f"org/target@{'1' * 40}"


def _split(command: str) -> tuple[dict[str, str], list[str]]:
    words = shlex.split(command)
    at = words.index("vllm")
    return dict(word.split("=", 1) for word in words[:at]), words[at:]


@pytest.mark.parametrize("index", [0, 1, 2], ids=["target-only", "ngram", "draft"])
@pytest.mark.parametrize("quantization", ["none", "awq_marlin"])
def test_it_has_every_flag_of_the_launch_with_the_same_value(index: int, quantization: str) -> None:
    of = manifest()
    of = of.model_copy(update={"serving": of.serving.model_copy(update={"quantization": quantization})})
    environment, argv = _split(serve_command(of, of.arms[index]))
    measured, deployed = options(spec(index, of).argv), options(tuple(argv))
    assert set(deployed) == set(measured) - MEASURING
    assert {k: v for k, v in deployed.items() if k not in PATHS} == {
        k: v for k, v in measured.items() if k not in MEASURING | PATHS
    }
    assert environment == {name: value for name, value in spec(index, of).env.items() if name in DECIDING}


@pytest.mark.parametrize("index", [0, 1, 2], ids=["target-only", "ngram", "draft"])
def test_every_variable_of_the_command_is_recorded_with_what_was_measured(index: int) -> None:
    """What the command states is compared between arms and shown, as the engine resolved it."""
    of = manifest()
    stated, _ = _split(serve_command(of, of.arms[index]))
    assert stated.keys() <= set(PINNED_ENVIRONMENT)
    page = (ROOT / "docs" / "answer.md").read_text()
    assert not [name for name in stated if f"`{name}" not in page]


def test_speculation_is_the_measured_one_with_the_drafts_own_name() -> None:
    of = manifest()
    _, argv = _split(serve_command(of, of.arms[2]))
    deployed, measured = (
        json.loads(value or "")
        for value in (
            options(tuple(argv))["--speculative-config"],
            options(spec(2, of).argv)["--speculative-config"],
        )
    )
    assert deployed == {**measured, "model": "draft"}


def test_models_of_the_hub_are_pinned_by_their_commits() -> None:
    arms: list[dict[str, Any]] = [
        {"name": "target-only", "speculation": {"method": "target_only"}},
        {
            "name": "eagle",
            "draft_or_speculator": f"org/head@{'2' * 40}",
            "speculation": {"method": "eagle", "num_speculative_tokens": 3},
        },
    ]
    of = manifest(target_model=HUB, target_tokenizer=HUB, arms=arms)
    _, argv = _split(serve_command(of, of.arms[1]))
    found = options(tuple(argv))
    assert argv[:3] == ["vllm", "serve", "org/target"]
    assert (found["--revision"], found["--tokenizer-revision"]) == ("1" * 40, "1" * 40)
    stated = json.loads(found["--speculative-config"] or "")
    assert (stated["model"], stated["revision"]) == ("org/head", "2" * 40)
    assert to_do_before(of, of.arms[1]) == ()


def test_a_local_model_has_to_be_put_in_its_place_first() -> None:
    of: Manifest = manifest()
    said = to_do_before(of, of.arms[2])
    assert [line.rsplit(" ", 1)[-1] for line in said] == ["target", "draft"]
    assert all("sha256:" in line for line in said)
