"""Tokenizers token by token, their special tokens, and which chat template counts."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from app.domain.canonical import canonical_json
from app.domain.capability import ModelFacts
from tests.worker.model_directory import TOKENIZER_CONFIG, WORDS, make_model, tokenizer_json
from worker.model_differences import differences, vocabulary_difference
from worker.model_files.tokenizer import vocabulary
from worker.model_files.tree import scan
from worker.models import local_model


def facts_of(directory: Path, **files: Any) -> ModelFacts:
    return local_model(make_model(directory, **files)).facts


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_vocabulary_is_every_id_with_its_token(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny")
    pairs: JsonValue = [[number, token] for number, token in enumerate([*WORDS, "<pad>"])]
    assert (facts.vocabulary_tokens, facts.vocabulary_sha256) == (5, sha256(canonical_json(pairs)))


@pytest.mark.parametrize(
    "other",
    [
        tokenizer_json(("<end>", "a", "c", "b")),
        tokenizer_json(("<end>", "a", "b", "d")),
        tokenizer_json(("<end>", "a", "b")),
        tokenizer_json(added=("<PAD>",)),
        tokenizer_json(added=("<pad>", "<more>")),
        tokenizer_json(added=()),
    ],
    ids=["two swapped", "one renamed", "one less", "added renamed", "one more added", "none added"],
)
def test_one_token_is_another_vocabulary(tmp_path: Path, other: str) -> None:
    assert facts_of(tmp_path / "a").vocabulary_sha256 != facts_of(tmp_path / "b", tokenizer=other).vocabulary_sha256


def test_the_same_vocabulary_in_another_writing(tmp_path: Path) -> None:
    written = json.loads(tokenizer_json())
    written["model"]["vocab"] = dict(reversed(written["model"]["vocab"].items()))
    written["pre_tokenizer"] = {"type": "Whitespace"}
    one, two = facts_of(tmp_path / "a"), facts_of(tmp_path / "b", tokenizer=written)
    assert one.vocabulary_sha256 == two.vocabulary_sha256
    assert one.tokenizer_sha256 != two.tokenizer_sha256


def test_what_the_settings_add_is_part_of_the_vocabulary(tmp_path: Path) -> None:
    added = {"5": {"content": "<five>"}, "10": {"content": "<ten>"}, "4": {"content": "<pad>", "special": True}}
    model = make_model(tmp_path / "a", tokenizer_config={"added_tokens_decoder": added, "mask_token": "<mask>"})
    tokens = [token for _, token in vocabulary(scan(model))]
    assert tokens == [*WORDS, "<pad>", "<five>", "<ten>", "<mask>"]


@pytest.mark.parametrize(("settings", "counts"), [({}, True), ({"added_tokens_decoder": {}}, False)])
def test_an_older_tokenizer_adds_by_a_file_of_its_own(tmp_path: Path, settings: dict[str, Any], counts: bool) -> None:
    older = {"added_tokens.json": {"<y>": 6, "<x>": 5}}
    tokens = [token for _, token in vocabulary(scan(make_model(tmp_path / "a", tokenizer_config=settings, **older)))]
    assert tokens == [*WORDS, "<pad>", *(["<x>", "<y>"] if counts else [])]


@pytest.mark.parametrize(
    ("settings", "special_map", "expected"),
    [
        ({"eos_token": {"content": "</s>"}, "bos_token": None, "added_tokens_decoder": {}}, {}, {"eos_token": "</s>"}),
        ({"eos_token": "new", "added_tokens_decoder": {}}, {"eos_token": "old"}, {"eos_token": "new"}),
        ({"eos_token": "new"}, {"eos_token": "old"}, {"eos_token": "old"}),
        ({"additional_special_tokens": ["b", {"content": "a"}]}, {}, {"additional_special_tokens": '["a","b"]'}),
        ({"extra_special_tokens": {"image_token": "<img>"}}, {}, {"image_token": "<img>"}),
        ({"extra_special_tokens": ["<img>"]}, {}, {"extra_special_tokens": '["<img>"]'}),
        ({"add_eos_token": True, "tokenizer_class": "X"}, {}, {}),
    ],
)
def test_special_tokens_as_transformers_decides(
    tmp_path: Path, settings: dict[str, Any], special_map: dict[str, Any], expected: dict[str, str]
) -> None:
    facts = facts_of(tmp_path / "a", tokenizer_config=settings, **{"special_tokens_map.json": special_map})
    assert facts.special_tokens == expected


JINJA, PROCESSOR, SETTINGS = "from the file", "from the processor", "from the settings"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"tokenizer_config": {"chat_template": SETTINGS}}, SETTINGS),
        ({"tokenizer_config": {"chat_template": SETTINGS}, "chat_template.jinja": JINJA}, JINJA),
        ({"tokenizer_config": {}, "chat_template.jinja": JINJA}, JINJA),
        (
            {
                "tokenizer_config": {"chat_template": SETTINGS},
                "chat_template.json": {"chat_template": PROCESSOR},
                "preprocessor_config.json": {},
            },
            PROCESSOR,
        ),
        (
            {"tokenizer_config": {"chat_template": SETTINGS}, "chat_template.json": {"chat_template": PROCESSOR}},
            SETTINGS,
        ),
        ({"tokenizer_config": {"chat_template": [{"name": "default", "template": SETTINGS}]}}, SETTINGS),
    ],
)
def test_the_template_that_counts(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    assert facts_of(tmp_path / "a", **files).chat_template_sha256 == sha256(expected.encode())


def test_several_templates_count_together(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "y"}]
    expected = sha256(canonical_json({"default": "x", "tool_use": "y"}))
    assert facts_of(tmp_path / "a", tokenizer_config={"chat_template": named}).chat_template_sha256 == expected
    files = {"chat_template.jinja": "x", "additional_chat_templates/tool_use.jinja": "y"}
    assert facts_of(tmp_path / "b", **files).chat_template_sha256 == expected


def test_no_template_is_none_and_known(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "a", tokenizer_config={})
    assert facts.chat_template_sha256 is None
    assert "chat_template_sha256" not in facts.not_known


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1])
@pytest.mark.parametrize("place", ["tokenizer_config", "chat_template.jinja"])
def test_a_template_of_more_than_64_kib_is_no_fact(tmp_path: Path, size: int, place: str) -> None:
    template = "x" * size
    content = template if place.endswith("jinja") else {"chat_template": template}
    facts = facts_of(tmp_path / "a", **{place: content})
    assert (facts.chat_template_sha256 is None) == (size > 64 * 1024)
    assert ("more than 65,536" in facts.not_known.get("chat_template_sha256", "")) == (size > 64 * 1024)


def test_a_model_does_not_differ_from_itself(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "a")
    assert differences(facts, facts) == {}


def test_only_what_differs_is_told(tmp_path: Path) -> None:
    one = facts_of(tmp_path / "a")
    settings = TOKENIZER_CONFIG | {"eos_token": "a", "chat_template": "other"}
    config = {"max_position_embeddings": 32, "rope_theta": 5.0, "vocab_size": 6, "eos_token_id": 0}
    two = facts_of(tmp_path / "b", tokenizer_config=settings, config=config)
    found = differences(one, two)
    assert {group: set(differing) for group, differing in found.items()} == {
        "tokenizer": {"tokenizer_sha256"},
        "special tokens": {"eos_token"},
        "chat template": {"chat_template_sha256"},
        "rope": {"rope_theta"},
        "context": {"max_position_embeddings"},
    }
    assert found["special tokens"]["eos_token"] == ("<end>", "a")
    assert found["rope"]["rope_theta"] == (10000.0, 5.0)


def test_differing_tokens_are_counted_and_the_first_are_shown() -> None:
    one = ((0, "a"), (1, "b"), (2, "c"))
    two = ((0, "a"), (1, "B"), (3, "d"))
    found = vocabulary_difference(one, two)
    assert found.ids == 3
    assert found.examples == ((1, "'b'", "'B'"), (2, "'c'", "(none)"), (3, "(none)", "'d'"))
