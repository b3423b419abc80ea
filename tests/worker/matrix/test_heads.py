"""The untrained heads: the shapes that the loaders ask for, the same bytes every time, the pair's own numbers."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from app.settings import Settings
from worker.matrix.heads import HEADS, read_target
from worker.matrix.models import (
    MASKED_DRAFT,
    MTP_TARGET,
    TARGET,
    UNKNOWN_TARGET,
    WIDE_DRAFT,
    make_models,
)
from worker.matrix.tensors import read_config, read_weights

BUNDLED = Settings().model_root
HIDDEN, VOCABULARY, INNER = 256, 4096, 704


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("matrix") / "models"
    make_models(BUNDLED, directory)
    return directory


def digests(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    return {name: weights.shape for name, weights in read_weights(directory).items()}


def test_bfloat16_is_read_as_its_own_reader_reads_it() -> None:
    path = BUNDLED / TARGET / "model.safetensors"
    mine = read_weights(BUNDLED / TARGET)["model.layers.0.mlp.down_proj.weight"]
    with safe_open(path, framework="numpy") as file:
        shape = file.get_slice("model.layers.0.mlp.down_proj.weight").get_shape()
    assert list(mine.shape) == shape
    assert mine.dtype == np.float32
    assert 0.001 < float(np.abs(mine).mean()) < 1
    bits = mine.view(np.uint32)
    assert not np.any(bits & 0xFFFF), "a widened bfloat16 has no lower bits"


def test_the_models_are_the_same_every_time(root: Path, tmp_path: Path) -> None:
    make_models(BUNDLED, tmp_path / "again")
    ours, again = digests(root), digests(tmp_path / "again")
    assert {k: v for k, v in ours.items() if not k.startswith(".")} == {
        k: v for k, v in again.items() if not k.startswith(".")
    }


def test_models_that_are_there_are_left_alone(root: Path) -> None:
    weights = root / TARGET / "model.safetensors"
    before = weights.stat().st_mtime_ns
    make_models(BUNDLED, root)
    assert weights.stat().st_mtime_ns == before


def test_eagle_reads_embedding_and_hidden_state(root: Path) -> None:
    found = shapes(root / "untrained-eagle")
    assert found["fc.weight"] == (HIDDEN, 2 * HIDDEN)
    assert found["embed_tokens.weight"] == (VOCABULARY, HIDDEN)
    assert "layers.0.input_layernorm.weight" not in found
    assert read_config(root / "untrained-eagle")["num_hidden_layers"] == 1


@pytest.mark.parametrize(("alias", "stated"), [("untrained-eagle3", [1, 3, 5]), ("untrained-eagle3-open", None)])
def test_eagle3_states_its_inner_layers_or_leaves_them_open(root: Path, alias: str, stated: list[int] | None) -> None:
    found = shapes(root / alias)
    assert found["fc.weight"] == (HIDDEN, 3 * HIDDEN)
    assert found["midlayer.self_attn.q_proj.weight"] == (HIDDEN, 2 * HIDDEN)
    config = read_config(root / alias)
    assert config.get("eagle_aux_hidden_state_layer_ids") == stated
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]


def test_medusa_has_a_head_for_each_token(root: Path) -> None:
    found = shapes(root / "untrained-medusa")
    assert {name for name in found if name.startswith("lm_heads")} == {f"lm_heads.{i}.weight" for i in range(3)}
    assert read_config(root / "untrained-medusa")["num_heads"] == 3


def test_the_mtp_target_is_the_target_with_a_module_of_its_own(root: Path) -> None:
    found, target = read_weights(root / MTP_TARGET), read_weights(root / TARGET)
    for name, weights in target.items():
        assert np.array_equal(found[name], weights)
    assert found["model.mtp_layers.0.input_proj.weight"].shape == (HIDDEN, 2 * HIDDEN)
    assert found["model.layers.5.self_attn.q_proj.bias"].shape == (HIDDEN,)
    assert (root / MTP_TARGET / "tokenizer.json").read_bytes() == (root / TARGET / "tokenizer.json").read_bytes()


def test_variants_differ_in_what_their_names_say(root: Path) -> None:
    assert read_config(root / WIDE_DRAFT)["vocab_size"] == VOCABULARY + 64
    assert shapes(root / WIDE_DRAFT)["model.embed_tokens.weight"][0] == VOCABULARY + 64
    assert read_config(root / MASKED_DRAFT)["pard_token"] == 1
    assert "unk_token" in (root / UNKNOWN_TARGET / "tokenizer_config.json").read_text()


@pytest.mark.parametrize("alias", sorted(HEADS))
def test_every_head_fits_another_target_too(alias: str) -> None:
    target = read_target(BUNDLED / "tiny-draft")
    head = HEADS[alias](target)
    assert head.config["vocab_size"] == VOCABULARY
    assert all(np.isfinite(weights).all() for weights in head.weights.values())


def test_read_config_is_what_the_file_says(root: Path) -> None:
    assert read_config(root / TARGET)["intermediate_size"] == INNER
