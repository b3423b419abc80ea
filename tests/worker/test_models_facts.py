"""What a sound model's files say, fact by fact."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.capability import ModelFacts
from app.settings import PROJECT_ROOT
from tests.worker.model_directory import (
    CONFIG,
    TEMPLATE,
    TOKENIZER_CONFIG,
    make_model,
    put,
    save_weights,
    tokenizer_json,
)
from worker.models import local_model

V5_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"factor": 4.0, "original_max_position_embeddings": 16}


def facts_of(directory: Path, **files: Any) -> ModelFacts:
    return local_model(make_model(directory, **files)).facts


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_sound_model_leaves_nothing_unknown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny")
    assert facts.not_known == {}
    assert (facts.architectures, facts.model_type, facts.quantization) == (("LlamaForCausalLM",), "llama", "none")
    assert (facts.parameters, facts.dtype, facts.weights_format) == (56, "float32", "safetensors")
    assert facts.weights_bytes == (tmp_path / "tiny" / "model.safetensors").stat().st_size
    assert facts.bytes == sum(path.stat().st_size for path in (tmp_path / "tiny").iterdir())
    assert (facts.vocab_size, facts.max_position_embeddings, facts.hidden_size) == (6, 64, 8)
    assert (facts.num_hidden_layers, facts.num_attention_heads, facts.num_key_value_heads, facts.head_dim) == (
        2,
        2,
        1,
        4,
    )
    assert facts.rope == {"rope_theta": 10000.0}
    assert facts.eos_token_ids == (0, 3)
    assert facts.special_tokens == {"eos_token": "<end>"}
    assert not facts.needs_remote_code
    assert not facts.is_speculators_format
    assert facts.head == {}
    assert facts.provenance == {
        "training_data": "wiki, code",
        "target_revision": "someone/target@abc",
        "training_cost": "3 GPU hours",
        "licence": "MIT",
    }


@pytest.mark.parametrize(("alias", "parameters"), [("tiny-target", 5_868_800), ("tiny-draft", 926_336)])
def test_the_bundled_models_are_known_in_full(alias: str, parameters: int) -> None:
    facts = local_model(PROJECT_ROOT / "models" / alias).facts
    assert facts.not_known == {}
    assert (facts.parameters, facts.dtype, facts.vocabulary_tokens) == (parameters, "bfloat16", 4096)
    assert {"training_data", "training_cost", "licence"} <= set(facts.provenance)


def test_the_bundled_draft_names_the_target_it_was_trained_for() -> None:
    target, draft = (local_model(PROJECT_ROOT / "models" / alias).facts for alias in ("tiny-target", "tiny-draft"))
    assert draft.provenance["target_revision"] == target.ref
    assert draft.vocabulary_sha256 == target.vocabulary_sha256
    assert draft.chat_template_sha256 == target.chat_template_sha256


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config", "transformer_layer_config"])
def test_a_configuration_of_several_parts(tmp_path: Path, part: str) -> None:
    inner = {key: value for key, value in CONFIG.items() if key != "architectures"}
    whole = {
        "architectures": ["SomethingForConditionalGeneration"],
        "model_type": "seeing",
        part: inner,
        "eos_token_id": 5,
    }
    facts = facts_of(tmp_path / "tiny", config=whole)
    assert (facts.architectures, facts.model_type) == (("SomethingForConditionalGeneration",), "seeing")
    assert (facts.vocab_size, facts.hidden_size, facts.rope) == (6, 8, {"rope_theta": 10000.0})
    assert facts.eos_token_ids == (0, 3, 5)


def test_the_thinker_of_an_omni_model(tmp_path: Path) -> None:
    assert facts_of(tmp_path / "tiny", config={"thinker_config": {"text_config": CONFIG}}).hidden_size == 8


def test_older_names_of_the_same_sizes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny", config={"n_embd": 4, "n_layer": 3, "n_head": 2, "n_positions": 99})
    assert (facts.hidden_size, facts.num_hidden_layers, facts.num_attention_heads) == (4, 3, 2)
    assert facts.max_position_embeddings == 99


@pytest.mark.parametrize("wrong", ["six", -1, 2**63, True, 1.5, [6], {"size": 6}, None])
def test_a_size_of_the_wrong_kind_is_not_known(tmp_path: Path, wrong: Any) -> None:
    assert facts_of(tmp_path / "tiny", config=CONFIG | {"vocab_size": wrong}).vocab_size is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"rope_theta": 10000.0, "rope_scaling": None}, {"rope_theta": 10000.0}),
        ({"rope_parameters": V5_ROPE}, {"rope_theta": 10000.0}),
        (
            {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", **YARN}},
            {"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", **YARN}},
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN}},
            {"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", **YARN}},
        ),
        ({"rope_parameters": {"full_attention": V5_ROPE}}, {"rope_parameters": {"full_attention": V5_ROPE}}),
        ({"partial_rotary_factor": 0.5, "rotary_emb_base": 10}, {"partial_rotary_factor": 0.5, "rotary_emb_base": 10}),
        (
            {"rope_scaling": {"type": "linear", "factor": float("inf")}},
            {"rope_scaling": {"rope_type": "linear", "factor": "inf"}},
        ),
    ],
)
def test_rope_is_written_one_way(tmp_path: Path, settings: dict[str, Any], expected: dict[str, Any]) -> None:
    without = {key: value for key, value in CONFIG.items() if not key.startswith("rope")}
    facts = facts_of(tmp_path / "tiny", config=without | settings)
    assert facts.rope == expected
    json.dumps(facts.model_dump(mode="json"), allow_nan=False)


@pytest.mark.parametrize(
    ("files", "quantization"),
    [
        ({"config": CONFIG | {"quantization_config": {"quant_method": "AWQ"}}}, "awq"),
        ({"config": CONFIG | {"compression_config": {"quant_method": "compressed-tensors"}}}, "compressed-tensors"),
        ({"hf_quant_config.json": {"producer": {"name": "modelopt"}}}, "modelopt"),
        ({"config": CONFIG | {"quantization_config": {}}}, "none"),
    ],
)
def test_the_quantisation_is_named_as_the_files_name_it(
    tmp_path: Path, files: dict[str, Any], quantization: str
) -> None:
    assert facts_of(tmp_path / "tiny", **files).quantization == quantization


def test_a_quantisation_without_a_name_is_not_taken_for_none(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny", config=CONFIG | {"quantization_config": {"bits": 4}})
    assert facts.quantization == "unknown"
    assert "without naming its method" in facts.not_known["quantization"]


def test_packed_weights_are_not_counted_as_parameters(tmp_path: Path) -> None:
    model = make_model(tmp_path / "tiny", config=CONFIG | {"quantization_config": {"quant_method": "gptq"}})
    save_weights(model / "model.safetensors", {"qweight": (100,)}, "int32")
    facts = local_model(model).facts
    assert (facts.parameters, facts.dtype) == (None, "int32")
    assert "packed as int32" in facts.not_known["parameters"]


def test_shards_count_together_and_only_those_of_the_index(tmp_path: Path) -> None:
    model = make_model(tmp_path / "tiny")
    (model / "model.safetensors").unlink()
    one = save_weights(model / "model-00001-of-00002.safetensors", {"a": (3,)})
    two = save_weights(model / "model-00002-of-00002.safetensors", {"b": (4,)})
    save_weights(model / "consolidated.safetensors", {"a": (3,), "b": (4,)})
    assert local_model(model).facts.parameters == 7
    save_weights(model / "other.safetensors", {"c": (5,)})
    put(model / "model.safetensors.index.json", {"weight_map": {"a": one.name, "b": two.name}})
    facts = local_model(model).facts
    assert (facts.parameters, facts.weights_bytes) == (7, one.stat().st_size + two.stat().st_size)


@pytest.mark.parametrize(
    ("name", "weights_format"), [("pytorch_model.bin", "pickle"), ("medusa_lm_head.pt", "pickle"), ("m.gguf", "gguf")]
)
def test_weights_in_another_format(tmp_path: Path, name: str, weights_format: str) -> None:
    model = make_model(tmp_path / "tiny", config=CONFIG | {"torch_dtype": "float16"})
    (model / "model.safetensors").unlink()
    put(model / name, b"\x80\x04.")
    put(model / "training_args.bin", b"\x80\x04.")
    facts = local_model(model).facts
    assert (facts.parameters, facts.weights_format, facts.weights_bytes, facts.dtype) == (
        None,
        weights_format,
        3,
        "float16",
    )
    assert facts.not_known["parameters"] == f"weights are not safetensors ({weights_format})"


@pytest.mark.parametrize(
    ("config", "weights", "head"),
    [
        ({"model_type": "medusa", "num_heads": 3, "topk": 10}, None, {"num_heads": 3, "topk": 10}),
        ({"model_type": "mlp_speculator", "n_predict": 3, "inner_dim": 8}, None, {"n_predict": 3, "inner_dim": 8}),
        (CONFIG | {"num_nextn_predict_layers": 1}, None, {"num_nextn_predict_layers": 1}),
        (CONFIG | {"num_heads": 3, "block_size": 16}, None, {}),
        (CONFIG, {"fc.weight": (8, 16)}, {"fc": [8, 16]}),
        (CONFIG, {"model.fc.weight": (8, 24)}, {"fc": [8, 24]}),
        (
            CONFIG | {"dflash_config": {"mask_token_id": 5}, "block_size": 8},
            None,
            {"dflash_config": {"mask_token_id": 5}, "block_size": 8},
        ),
    ],
)
def test_what_only_a_draft_has(
    tmp_path: Path, config: dict[str, Any], weights: dict[str, Any] | None, head: dict[str, Any]
) -> None:
    assert facts_of(tmp_path / "tiny", config=config, weights=weights).head == head


def test_a_speculators_repository_is_recognised_with_its_target(tmp_path: Path) -> None:
    speculators = {"verifier": {"name_or_path": "someone/target"}, "proposal_methods": [{"speculative_tokens": 3}]}
    config = {"speculators_model_type": "eagle3", "speculators_config": speculators, "transformer_layer_config": CONFIG}
    facts = facts_of(tmp_path / "tiny", config=config, readme="no front matter")
    assert facts.is_speculators_format
    assert facts.head["speculators_model_type"] == "eagle3"
    assert (facts.hidden_size, facts.provenance) == (8, {"target_revision": "someone/target"})


@pytest.mark.parametrize("name", ["config", "tokenizer_config"])
def test_code_of_its_own_is_seen(tmp_path: Path, name: str) -> None:
    settings = {"auto_map": {"AutoModel": "modeling.Model"}}
    content = settings | (CONFIG if name == "config" else TOKENIZER_CONFIG)
    assert facts_of(tmp_path / "tiny", **{name: content}).needs_remote_code


def test_files_have_digests_of_their_own(tmp_path: Path) -> None:
    plain = facts_of(tmp_path / "plain")
    assert plain.generation_config_sha256 == sha256(json.dumps({"eos_token_id": [0, 3]}))
    assert plain.adapter_sha256 is None
    adapted = facts_of(tmp_path / "adapted", **{"adapter_config.json": {"r": 8}, "generation_config": None})
    assert adapted.adapter_sha256 is not None
    assert adapted.generation_config_sha256 is None
    assert adapted.tokenizer_sha256 == plain.tokenizer_sha256
    assert facts_of(tmp_path / "other", tokenizer=tokenizer_json(("x", "y"))).tokenizer_sha256 != plain.tokenizer_sha256


def test_the_card_counts_before_the_training_record(tmp_path: Path) -> None:
    record = {"seconds": 70.5, "teacher": "big", "licence": "BSD"}
    card = "---\nlicense: other\nlicense_name: house\nbase_model: someone/base\ndatasets:\n- one\n- two\n---\n"
    facts = facts_of(tmp_path / "tiny", readme=card, **{"training.json": record})
    assert facts.provenance == {
        "training_data": "one, two",
        "target_revision": "someone/base",
        "training_cost": "70.5 s of training",
        "licence": "other, house",
    }


def test_a_longer_statement_is_cut_and_shows_it(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny", readme=f"---\nlicence: {'x' * 2000}\n---\n")
    assert len(facts.provenance["licence"]) == 500
    assert facts.provenance["licence"].endswith("…")


def test_the_template_itself_never_leaves(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "tiny")
    assert facts.chat_template_sha256 == sha256(TEMPLATE)
    assert "messages" not in facts.model_dump_json()
