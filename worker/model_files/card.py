"""Where a model comes from, as its card and its training record state it. Nothing here is checked or guessed.

The card's front matter counts first, then the configuration of a head, then ``training.json``.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import yaml

from worker.model_files.config import Config
from worker.model_files.digests import CARD
from worker.model_files.tree import INTEGER_MAX, ModelRefused, Tree, is_clean, is_object

TRAINING = "training.json"
CARD_BYTES_MAX = 4 * 1024**2
FRONT_MATTER_MAX = 64 * 1024
"""Characters."""
STATEMENT_MAX = 500
"""Characters of one statement; a longer one is cut, and shows it."""
FENCE = "---"


def card_provenance(tree: Tree) -> dict[str, str]:
    """What the front matter of ``README.md`` states. Raises ``ModelRefused`` where it is no YAML mapping."""
    matter = front_matter(tree.text(CARD, limit=CARD_BYTES_MAX)) if CARD in tree else {}
    return _stated(
        CARD,
        training_data=matter.get("training_data") or matter.get("datasets"),
        target_revision=matter.get("target_revision") or matter.get("base_model"),
        training_cost=matter.get("training_cost"),
        licence=matter.get("licence") or _licence(matter),
    )


def recorded_provenance(tree: Tree, config: Config) -> dict[str, str]:
    """What a head's configuration and ``training.json`` state. Raises ``ModelRefused`` where it is no JSON object."""
    training = tree.json_or_empty(TRAINING)
    seconds = training.get("seconds")
    return _stated(
        TRAINING,
        training_data=training.get("training_data"),
        target_revision=_verifier(config) or training.get("target_revision") or training.get("teacher"),
        training_cost=training.get("training_cost") or (seconds and f"{seconds} s of training"),
        licence=training.get("licence") or training.get("license"),
    )


def front_matter(text: str) -> dict[str, Any]:
    """The YAML between the first two ``---`` lines; empty without them. Raises ``ModelRefused``."""
    lines = text[: FRONT_MATTER_MAX + 1].splitlines()
    if not lines or lines[0].strip() != FENCE:
        return {}
    closing = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if closing is None:
        raise ModelRefused.of(CARD, f"has front matter without an end in {FRONT_MATTER_MAX:,} characters", "close it")
    try:
        value: object = yaml.safe_load("\n".join(lines[1:closing]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"has front matter that is not YAML: {_line(str(error))}"
        raise ModelRefused.of(CARD, message, "correct it") from error
    if value is not None and not is_object(value):
        raise ModelRefused.of(CARD, "has front matter that is not a mapping", "correct it")
    return value or {}


def _licence(matter: Mapping[str, Any]) -> list[Any]:
    """The hub's ``license``; ``other`` is explained by further keys."""
    return [part for key in ("license", "license_name", "license_link") if (part := matter.get(key))]


def _verifier(config: Config) -> Any:
    speculators = config.whole.get("speculators_config")
    verifier = speculators.get("verifier") if is_object(speculators) else None
    return verifier.get("name_or_path") if is_object(verifier) else None


def _stated(file: str, **statements: object) -> dict[str, str]:
    said = {key: _words(value) for key, value in statements.items()}
    if not all(is_clean(words) for words in said.values()):
        raise ModelRefused.of(file, "has a statement that is not Unicode", "correct it")
    return {key: words for key, words in said.items() if words}


def _words(value: object) -> str:
    """A scalar, or a list of them, as one line; anything else says nothing."""
    items = value if isinstance(value, list) else [value]
    line = _line(", ".join(str(item) for item in items if _is_scalar(item)))
    return line if len(line) <= STATEMENT_MAX else f"{line[: STATEMENT_MAX - 1]}…"


def _is_scalar(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return abs(value) <= INTEGER_MAX if isinstance(value, int) else isinstance(value, str | float | dt.date)


def _line(text: str) -> str:
    return " ".join(text.split())
