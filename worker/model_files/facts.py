"""All that a model's files say, as the document that workers publish of it.

Configuration and weights must be sound, or the model is refused, since no engine could serve it. Whatever
else cannot be read leaves its fact unknown, with the reason.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from app.domain.capability import ModelFacts
from worker.model_files.card import card_provenance, recorded_provenance
from worker.model_files.chat_template import chat_template_digest
from worker.model_files.config import Config, config_facts, quantization, read_config, short
from worker.model_files.digests import group_digest
from worker.model_files.tokenizer import (
    TOKENIZER_CONFIG,
    TOKENIZER_FILES,
    Vocabulary,
    special_tokens,
    vocabulary,
    vocabulary_digest,
)
from worker.model_files.tree import ModelRefused, Tree, storable
from worker.model_files.weights import Weights, weights_of

GENERATION_CONFIG = "generation_config.json"
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
HASHED_FILES = frozenset({*TOKENIZER_FILES, *ADAPTER_FILES, GENERATION_CONFIG})
"""Files with a digest among the facts."""
UNKNOWN = "unknown"
REASON_MAX = 500
TREES_REMEMBERED = 256

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads facts one by one, and notes of each unknown one why."""

    not_known: dict[str, str] = field(default_factory=dict[str, str])

    def fact(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except ModelRefused as refusal:
            reason = "; ".join(f"{problem.field} {problem.message}" for problem in refusal.problems)
            self.not_known[name] = storable(reason)[:REASON_MAX]
            return otherwise


def model_facts(tree: Tree, sha256s: Mapping[str, str], *, ref: str, alias: str | None) -> ModelFacts:
    """The facts of the model under ``tree``; ``sha256s`` holds at least ``HASHED_FILES``, where they are there.

    Raises ``ModelRefused`` naming the file without which the model cannot be served.
    """
    read = _remembered if tree.settled(time.time_ns()) else _read
    return ModelFacts(
        ref=ref,
        alias=alias,
        tokenizer_sha256=group_digest(sha256s, TOKENIZER_FILES),
        generation_config_sha256=sha256s.get(GENERATION_CONFIG),
        adapter_sha256=group_digest(sha256s, ADAPTER_FILES),
        **read(tree),
    )


def _read(tree: Tree) -> dict[str, Any]:
    config, weights, reader = read_config(tree), weights_of(tree), _Reader()
    generation = reader.fact("eos_token_ids", lambda: tree.json_or_empty(GENERATION_CONFIG), {})
    facts = config_facts(config, generation)
    tokenizer = reader.fact("special_tokens", lambda: tree.json_or_empty(TOKENIZER_CONFIG), {})
    facts["needs_remote_code"] |= bool(tokenizer.get("auto_map"))
    if weights.eagle_shape is not None:
        facts["head"] |= {"fc": list(weights.eagle_shape)}
    return {
        "bytes": sum(entry.size for entry in tree.entries),
        **facts,
        **_of_weights(tree, config, weights, reader),
        **_of_tokenizer(tree, reader),
        "provenance": _provenance(tree, config, reader),
        "not_known": reader.not_known,
    }


_remembered = lru_cache(TREES_REMEMBERED)(_read)
"""Workers publish at every wake, and most trees have not changed since."""


def _of_weights(tree: Tree, config: Config, weights: Weights, reader: _Reader) -> dict[str, Any]:
    quantised = reader.fact("quantization", lambda: quantization(config, tree), UNKNOWN)
    return {
        "weights_format": weights.format,
        "weights_bytes": weights.size,
        "dtype": weights.dtype or short(config.get("dtype") or config.get("torch_dtype")),
        "quantization": quantised,
        "parameters": reader.fact("parameters", lambda: _parameters(weights, quantised), None),
    }


def _parameters(weights: Weights, quantised: str) -> int | None:
    if weights.format != "safetensors":
        raise ModelRefused.of("weights", f"are not safetensors ({weights.format})", "convert them")
    if quantised != "none" and weights.is_packed:
        raise ModelRefused.of("weights", f"are packed as {weights.dtype}", "see the card of the unquantised model")
    return sum(weights.elements.values())


def _of_tokenizer(tree: Tree, reader: _Reader) -> dict[str, Any]:
    tokens: Vocabulary | None = reader.fact("vocabulary_sha256", lambda: vocabulary(tree), None)
    return {
        "special_tokens": reader.fact("special_tokens", lambda: special_tokens(tree), {}),
        "vocabulary_sha256": None if tokens is None else vocabulary_digest(tokens),
        "vocabulary_tokens": None if tokens is None else len(tokens),
        "chat_template_sha256": reader.fact("chat_template_sha256", lambda: chat_template_digest(tree), None),
    }


def _provenance(tree: Tree, config: Config, reader: _Reader) -> dict[str, str]:
    of_card = reader.fact("provenance", lambda: card_provenance(tree), {})
    recorded = reader.fact("provenance", lambda: recorded_provenance(tree, config), {})
    return recorded | of_card
