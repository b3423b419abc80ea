"""Broken and hostile directories: each is a fact that is not known, or a refusal that names the file; never a crash."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import DomainError
from tests.worker.model_directory import CONFIG, make_model, put, raw_safetensors, save_weights, tokenizer_json
from worker.model_files.tree import ModelRefused
from worker.models import local_model, local_models

DEEP = "[" * 100_000 + "]" * 100_000
TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
REFUSED: dict[str, tuple[str, Any, str]] = {
    "configuration missing": ("config", None, "config.json: is missing"),
    "configuration cut": ("config", '{"a": ', "config.json: is not JSON"),
    "configuration empty": ("config", "", "config.json: is not JSON"),
    "configuration a list": ("config", "[]", "config.json: is not a JSON object"),
    "configuration deep": ("config", '{"a": ' + DEEP + "}", "config.json: is nested too deeply"),
    "configuration large": ("config", b" " * (4 * 1024**2 + 1), "config.json: has more than 4,194,304 bytes"),
    "configuration not UTF-8": ("config", b'{"a": "\xff"}', "config.json: is not UTF-8 (byte 7)"),
    "configuration in UTF-16": ("config", '{"a": 1}'.encode("utf-16"), "config.json: is not UTF-8"),
    "a number of 5,000 digits": ("config", '{"vocab_size": ' + "9" * 5000 + "}", "config.json: is not JSON"),
    "rope flooded": ("config", {"rope_scaling": {"factors": [1.5] * 50_000}}, "more than 65,536 bytes of rope"),
    "rope nested": (
        "config",
        {"rope_scaling": {"a": [[[[[[[[[1]]]]]]]]]}},
        "nests its rope or head settings too deeply",
    ),
    "rope with half a character": ("config", '{"rope_x": "\\ud800"}', "has a text that is not Unicode"),
    "rope key with half a character": ("config", '{"rope_\\ud800": 1}', "has a text that is not Unicode"),
    "rope with NUL": ("config", {"rope_x": {"\x00": 1}}, "has a text that is not Unicode"),
    "rope beyond 63 bits": ("config", {"rope_theta": 2**63}, "has a number beyond 63 bits"),
    "no header": ("model.safetensors", b"\x08", "model.safetensors: claims a header of 8 bytes in a file of 1"),
    "header length lies": (
        "model.safetensors",
        raw_safetensors({}, length=2**40),
        "claims a header of 1,099,511,627,776",
    ),
    "header of nothing": ("model.safetensors", b"\x00" * 8, "claims a header of 0 bytes"),
    "header not JSON": ("model.safetensors", raw_safetensors(b"{{{{"), "model.safetensors: is not JSON"),
    "header not UTF-8": ("model.safetensors", raw_safetensors(b'{"\xff": 1}'), "has a header that is not UTF-8"),
    "header deep": ("model.safetensors", raw_safetensors(b'{"a": ' + DEEP.encode() + b"}"), "is nested too deeply"),
    "a pickle under that name": ("model.safetensors", b"\x80\x04" + b"x" * 100, "claims a header of"),
    "weights cut": ("model.safetensors", raw_safetensors({"a": TENSOR}, b"\x00" * 7), "is truncated"),
    "weights too long": (
        "model.safetensors",
        raw_safetensors({"a": TENSOR}, b"\x00" * 9),
        "longer than its header says",
    ),
    "shape and extent disagree": (
        "model.safetensors",
        raw_safetensors({"a": TENSOR | {"shape": [3]}}, b"\x00" * 8),
        "gives the tensor 'a' another size than its shape",
    ),
    "extent backwards": (
        "model.safetensors",
        raw_safetensors({"a": TENSOR | {"data_offsets": [8, 0]}}),
        "in no known way",
    ),
    "shape negative": ("model.safetensors", raw_safetensors({"a": TENSOR | {"shape": [-2]}}), "in no known way"),
    "shape beyond counting": (
        "model.safetensors",
        raw_safetensors({"a": TENSOR | {"shape": [2**62, 2**62]}}, b"\x00" * 8),
        "in no known way",
    ),
    "tensor a number": ("model.safetensors", raw_safetensors({"a": 1}), "in no known way"),
    "index names what is missing": (
        "model.safetensors.index.json",
        {"weight_map": {"a": "model-00002-of-00002.safetensors"}},
        "model-00002-of-00002.safetensors: is missing, though model.safetensors.index.json names it",
    ),
    "index leads outside": (
        "model.safetensors.index.json",
        {"weight_map": {"a": "../../etc/passwd"}},
        "../../etc/passwd: is missing, though model.safetensors.index.json names it",
    ),
    "index of numbers": ("model.safetensors.index.json", {"weight_map": {"a": 1}}, "has no weight_map of file names"),
    "index without a map": ("model.safetensors.index.json", {}, "has no weight_map of file names"),
    "one of two shards": (
        "model-00001-of-00002.safetensors",
        raw_safetensors({"a": TENSOR}, b"\x00" * 8),
        "model-00002-of-00002.safetensors: is missing, though other parts of its set are here",
    ),
    "pickles named and missing": (
        "pytorch_model.bin.index.json",
        {"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}},
        "pytorch_model-00001-of-00002.bin: is missing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_without_configuration_or_weights_it_is_refused_by_file(tmp_path: Path, case: str) -> None:
    name, content, complaint = REFUSED[case]
    model = make_model(tmp_path / "bad", **({name: content} if name == "config" else {}))
    if name != "config":
        put(model / name, content)
        if "index" in name or "of-" in name or name.startswith("pytorch"):
            (model / "model.safetensors").unlink()
    with pytest.raises(ModelRefused) as caught:
        local_model(model)
    assert complaint in str(caught.value)
    [problem] = caught.value.problems
    assert problem.remedy
    make_model(tmp_path / "good")
    assert [facts.alias for facts in local_models(tmp_path)] == ["good"]


UNKNOWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "generation deep": (
        {"generation_config": '{"a":' + DEEP + "}"},
        "eos_token_ids",
        "generation_config.json is nested",
    ),
    "tokenizer missing": ({"tokenizer": None}, "vocabulary_sha256", "tokenizer.json is missing"),
    "tokenizer cut": (
        {"tokenizer": tokenizer_json()[:-20]},
        "vocabulary_sha256",
        "is not a tokenizer that the library",
    ),
    "tokenizer empty": ({"tokenizer": "{}"}, "vocabulary_sha256", "is not a tokenizer that the library reads"),
    "tokenizer deep": ({"tokenizer": DEEP}, "vocabulary_sha256", "is not a tokenizer that the library reads"),
    "tokenizer that panics the library": (
        {
            "tokenizer": tokenizer_json()[:-1]
            + ', "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}'
        },
        "vocabulary_sha256",
        "Cannot parse precompiled_charsmap",
    ),
    "tokenizer not UTF-8": ({"tokenizer": b"\xff"}, "vocabulary_sha256", "tokenizer.json is not UTF-8"),
    "added token without id": (
        {"tokenizer_config": {"added_tokens_decoder": {"x": {"content": "a"}}}},
        "vocabulary_sha256",
        "has added tokens without an id",
    ),
    "added token without text": (
        {"tokenizer_config": {"added_tokens_decoder": {"1": {}}}},
        "vocabulary_sha256",
        "has no text for the added token 1",
    ),
    "an id of 5,000 digits": (
        {"tokenizer_config": {"added_tokens_decoder": {"9" * 5000: {"content": "a"}}}},
        "vocabulary_sha256",
        "has added tokens without an id",
    ),
    "a role that is not Unicode": (
        {"tokenizer_config": '{"\\ud800_token": "a"}'},
        "special_tokens",
        "which cannot be stored",
    ),
    "half a character": ({"tokenizer_config": '{"eos_token": "\\ud800"}'}, "special_tokens", "which cannot be stored"),
    "NUL in a token": ({"tokenizer_config": {"eos_token": "a\x00"}}, "special_tokens", "which cannot be stored"),
    "an endless token": ({"tokenizer_config": {"eos_token": "x" * 2000}}, "special_tokens", "which cannot be stored"),
    "a flood of tokens": (
        {"tokenizer_config": {"additional_special_tokens": [f"<{n}>" for n in range(5000)]}},
        "special_tokens",
        "names more than 4,096 special tokens",
    ),
    "template a number": ({"tokenizer_config": {"chat_template": 7}}, "chat_template_sha256", "of no known form"),
    "template of halves": (
        {"tokenizer_config": '{"chat_template": "\\ud800"}'},
        "chat_template_sha256",
        "has a chat template that is not Unicode",
    ),
    "template without a name": (
        {"tokenizer_config": {"chat_template": [{"template": "x"}]}},
        "chat_template_sha256",
        "of no known form",
    ),
    "card without an end": ({"readme": "---\nlicence: x\n"}, "provenance", "front matter without an end"),
    "card not YAML": ({"readme": "---\na: [\n---\n"}, "provenance", "front matter that is not YAML"),
    "card a list": ({"readme": "---\n- a\n---\n"}, "provenance", "not a mapping"),
    "card runs code": ({"readme": "---\na: !!python/object/apply:os.getpid []\n---\n"}, "provenance", "is not YAML"),
    "card deep": ({"readme": "---\na: " + "[" * 30_000 + "\n---\n"}, "provenance", "is not YAML"),
    "card not UTF-8": ({"readme": b"---\na: \xff\n---\n"}, "provenance", "README.md is not UTF-8"),
    "card with NUL": ({"readme": '---\nlicence: "a\\0b"\n---\n'}, "provenance", "not Unicode"),
    "record not JSON": ({"training.json": "{"}, "provenance", "training.json is not JSON"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_else_cannot_be_read_is_not_known_and_says_why(tmp_path: Path, case: str) -> None:
    files, fact, reason = UNKNOWN[case]
    facts = local_model(make_model(tmp_path / "odd", **files)).facts
    assert reason in facts.not_known[fact]
    assert facts.parameters == 56, "the rest is known"
    json.dumps(facts.model_dump(mode="json"), allow_nan=False).encode()


def test_a_card_of_aliases_of_aliases_says_nothing(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    facts = local_model(make_model(tmp_path / "bomb", readme=f"---\n{bomb}licence: *a29\n---\n")).facts
    assert facts.provenance == {}


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    model = make_model(tmp_path / "locked")
    (model / "config.json").unlink()
    (model / "config.json").mkdir()
    with pytest.raises(DomainError, match=r"config\.json: is missing"):
        local_model(model)


def test_an_adapter_or_a_consolidated_copy_is_no_weights_of_the_model(tmp_path: Path) -> None:
    model = make_model(tmp_path / "adapted")
    for name in ("adapter_model.safetensors", "consolidated.safetensors"):
        save_weights(model / name, {"extra": (1000,)})
    assert local_model(model).facts.parameters == 56


TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMED = st.sampled_from(
    [
        *CONFIG,
        "text_config",
        "thinker_config",
        "rope_parameters",
        "quantization_config",
        "speculators_config",
        "auto_map",
        "chat_template",
        "added_tokens_decoder",
        "extra_special_tokens",
        "additional_special_tokens",
        "eos_token",
        "seconds",
        "teacher",
        "num_heads",
        "n_predict",
    ]
)
KEYS = st.one_of(NAMED, *(TEXT.map(form.format) for form in ("rope_{}", "dspark_{}", "{}_token")))


def refused_file(model: Path) -> str | None:
    """The file by which the model is refused; ``None`` where it has facts, which can then be stored."""
    try:
        facts = local_model(model).facts
    except ModelRefused as refusal:
        return refusal.problems[0].field
    stored = json.dumps(facts.model_dump(mode="json"), allow_nan=False)
    assert "\\u0000" not in stored
    stored.encode()
    return None


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(
        ["config", "generation_config", "tokenizer_config", "special_tokens_map.json", "training.json"]
    ),
    changes=st.dictionaries(KEYS, JSON, min_size=1, max_size=4),
)
def test_any_json_gives_facts_that_can_be_stored_or_a_refusal(name: str, changes: dict[str, Any]) -> None:
    with TemporaryDirectory() as directory:
        model = make_model(Path(directory) / "any", **{name: CONFIG | changes})
        assert refused_file(model) in {None, "config.json"}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["config.json", "model.safetensors", "tokenizer.json", "README.md"]))
def test_any_bytes_give_facts_or_a_refusal(content: bytes, name: str) -> None:
    with TemporaryDirectory() as directory:
        model = make_model(Path(directory) / "any")
        put(model / name, content)
        assert refused_file(model) in {None, name}
