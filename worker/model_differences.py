"""Where two models differ in what speculation needs to be the same: tokens, template, positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from app.domain.capability import ModelFacts
from worker.model_files.tokenizer import Vocabulary

EXAMPLES = 5

Difference = tuple[Any, Any]
"""The value of the first model and of the second; ``None`` where it has none or it is not known."""


@dataclass(frozen=True, slots=True)
class VocabularyDifference:
    """How many ids stand for different tokens, and the first few: (id, tokens of the first, of the second)."""

    ids: int
    examples: tuple[tuple[int, str, str], ...]


def differences(first: ModelFacts, second: ModelFacts) -> dict[str, dict[str, Difference]]:
    """Group (``tokenizer``, ``special tokens``, …) → what differs in it; a group without a difference is left out."""
    of_first, of_second = _groups(first), _groups(second)
    found = {group: _differing(values, of_second[group]) for group, values in of_first.items()}
    return {group: differing for group, differing in found.items() if differing}


def vocabulary_difference(first: Vocabulary, second: Vocabulary) -> VocabularyDifference:
    """Compare two vocabularies id by id; an id may be missing in one, or stand for several tokens."""
    of_first, of_second = _by_id(first), _by_id(second)
    both = sorted(of_first.keys() | of_second.keys())
    differing = [(n, of_first.get(n, "(none)"), of_second.get(n, "(none)")) for n in both]
    differing = [row for row in differing if row[1] != row[2]]
    return VocabularyDifference(len(differing), tuple(islice(differing, EXAMPLES)))


def _groups(facts: ModelFacts) -> dict[str, dict[str, Any]]:
    tokenizer = ("vocab_size", "vocabulary_tokens", "vocabulary_sha256", "tokenizer_sha256")
    return {
        "tokenizer": {name: getattr(facts, name) for name in tokenizer},
        "special tokens": {**facts.special_tokens, "eos_token_ids": list(facts.eos_token_ids)},
        "chat template": {"chat_template_sha256": facts.chat_template_sha256},
        "rope": facts.rope,
        "context": {"max_position_embeddings": facts.max_position_embeddings},
    }


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Difference]:
    pairs = {name: (first.get(name), second.get(name)) for name in [*first, *(n for n in second if n not in first)]}
    return {name: (one, other) for name, (one, other) in pairs.items() if one != other}


def _by_id(tokens: Vocabulary) -> dict[int, str]:
    by_id: dict[int, str] = {}
    for number, token in tokens:
        by_id[number] = f"{by_id[number]} {token!r}" if number in by_id else repr(token)
    return by_id
