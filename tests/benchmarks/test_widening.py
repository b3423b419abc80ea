"""A widened model adds nothing to what the small one computes, and is the same bytes on every host."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.settings import PROJECT_ROOT
from benchmarks.gpu.widening import Shape, widen
from worker.matrix.tensors import Weights, read_weights
from worker.models import model_digest

SOURCE = PROJECT_ROOT / "models" / "tiny-draft"
CONFIG: dict[str, Any] = json.loads((SOURCE / "config.json").read_text())
OWN = int(CONFIG["num_hidden_layers"])
WIDTH = int(CONFIG["intermediate_size"]) + 40


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("models") / "wide"
    size = widen(SOURCE, target, Shape(OWN + 2, WIDTH))
    assert size == sum(weight.nbytes // 2 for weight in _weights(target).values())
    return target


def _weights(directory: Path) -> Weights:
    index = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    found: Weights = {}
    for file in sorted(set(index.values())):
        alone = directory.parent / "alone"
        alone.mkdir(exist_ok=True)
        (alone / "model.safetensors").write_bytes((directory / file).read_bytes())
        found |= read_weights(alone)
    assert sorted(found) == sorted(index)
    return found


def test_its_own_layers_hold_the_small_models_weights_and_further_units_lead_nowhere(wide: Path) -> None:
    small, large = read_weights(SOURCE), _weights(wide)
    for name, weight in small.items():
        part = large[name][tuple(slice(0, size) for size in weight.shape)]
        assert np.array_equal(part, weight), name
    for layer in range(OWN):
        down = large[f"model.layers.{layer}.mlp.down_proj.weight"]
        assert down.shape[1] == WIDTH
        assert not down[:, -40:].any()


def test_further_layers_pass_their_input_on(wide: Path) -> None:
    large = _weights(wide)
    for layer in range(OWN, OWN + 2):
        assert not large[f"model.layers.{layer}.self_attn.o_proj.weight"].any()
        assert not large[f"model.layers.{layer}.mlp.down_proj.weight"].any()
        assert large[f"model.layers.{layer}.mlp.up_proj.weight"].all()
    assert json.loads((wide / "config.json").read_text())["num_hidden_layers"] == OWN + 2


def test_the_same_source_gives_the_same_digest(wide: Path, tmp_path: Path) -> None:
    widen(SOURCE, tmp_path / "again", Shape(OWN + 2, WIDTH))
    assert model_digest(tmp_path / "again") == model_digest(wide)


def test_a_copy_is_never_smaller(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="cannot have fewer"):
        widen(SOURCE, tmp_path / "narrow", Shape(OWN, 8))
