"""An arm as a command to copy: ``vllm serve`` with what it was measured with, less what was only for measuring."""

import json
import shlex
from collections.abc import Iterator

from app.domain.launch import served_environment, served_options
from app.domain.manifest import Arm, Manifest
from app.domain.references import NO_DRAFT

_LOCAL = "local:"


def serve_command(manifest: Manifest, arm: Arm) -> str:
    """Environment, model and flags in one line for a shell; a local model is named by its alias."""
    environment = (f"{name}={shlex.quote(value)}" for name, value in served_environment(manifest, arm).items())
    return " ".join(
        [*environment, "vllm serve", shlex.quote(_name(manifest.target_model)), *serve_flags(manifest, arm)]
    )


def serve_flags(manifest: Manifest, arm: Arm) -> tuple[str, ...]:
    """The flags of ``serve_command``, one per entry, each quoted for a shell."""
    options = (
        *_pinned("--revision", manifest.target_model),
        ("--tokenizer", _name(manifest.target_tokenizer)),
        *_pinned("--tokenizer-revision", manifest.target_tokenizer),
        *served_options(manifest, arm),
        *_speculation(arm),
    )
    return tuple(" ".join(map(shlex.quote, option)) for option in options)


def to_do_before(manifest: Manifest, arm: Arm) -> tuple[str, ...]:
    """What the command cannot say by itself."""
    named = dict.fromkeys((manifest.target_model, manifest.target_tokenizer, arm.draft_or_speculator))
    local = (reference.removeprefix(_LOCAL).partition("@") for reference in named if reference.startswith(_LOCAL))
    return tuple(f"put the directory with the digest {digest} in place of {alias}" for alias, _, digest in local)


def _name(reference: str) -> str:
    return reference.removeprefix(_LOCAL).partition("@")[0]


def _pinned(flag: str, reference: str) -> Iterator[tuple[str, str]]:
    if not reference.startswith(_LOCAL):
        yield flag, reference.partition("@")[2]


def _speculation(arm: Arm) -> Iterator[tuple[str, str]]:
    draft = arm.draft_or_speculator
    stated = arm.speculation.speculative_config(None if draft == NO_DRAFT else _name(draft))
    if stated is not None:
        pinned = {} if draft == NO_DRAFT else dict(_pinned("revision", draft))
        yield "--speculative-config", json.dumps(stated | pinned, sort_keys=True, separators=(",", ":"))
