"""Untrained speculative heads for a small Llama target, in the layouts that vLLM loads: they test mechanics, not skill.

Every head passes the last token through more or less unchanged, so that repetitive text is drafted well.
Nothing is random but the layers that carry no signal, and those have a fixed seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worker.matrix.tensors import Floats, Weights, read_config, read_weights

SEED = 20_261_129
SCALE = 0.02
MEDUSA_HEADS = 3
INNER_LAYERS = (1, 3, 5)
"""Layers of the target whose hidden states EAGLE-3 and DFlash read."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target's configuration and weights."""

    config: dict[str, Any]
    weights: Weights

    @property
    def hidden(self) -> int:
        """The width of its hidden states."""
        return int(self.config["hidden_size"])

    @property
    def embeddings(self) -> Floats:
        """Its input embeddings, which are its output head too."""
        return self.weights["model.embed_tokens.weight"]

    def like(self, **changes: Any) -> dict[str, Any]:
        """Its configuration with changes; a change to ``None`` takes the key out."""
        return {key: value for key, value in {**self.config, **changes}.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Head:
    """A head or a target with a head, ready to be written. ``with_tokenizer``: it is served by itself."""

    config: dict[str, Any]
    weights: Weights
    with_tokenizer: bool = False


def read_target(directory: Path) -> Target:
    """The target model in ``directory``."""
    return Target(read_config(directory), read_weights(directory))


def eagle(target: Target) -> Head:
    """EAGLE: one layer without input norm over [token embedding, hidden state]."""
    weights = {f"layers.0.{name}": value for name, value in _layer(target).items() if name != "input_layernorm.weight"}
    weights["fc.weight"] = np.concatenate([0.3 * _same(target.hidden), _same(target.hidden)], axis=1)
    weights["embed_tokens.weight"] = target.embeddings
    return Head(target.like(num_hidden_layers=1), weights)


def eagle3(target: Target, layers: tuple[int, ...] | None = INNER_LAYERS) -> Head:
    """EAGLE-3: one layer over embedding and three hidden states of the target; ``None`` leaves their choice open."""
    weights = {f"midlayer.{name}": value for name, value in _layer(target, inputs=2 * target.hidden).items()}
    weights["midlayer.hidden_norm.weight"] = np.ones(target.hidden, dtype=np.float32)
    weights["norm.weight"] = target.weights["model.norm.weight"]
    weights["fc.weight"] = _last_of_three(target.hidden)
    weights["lm_head.weight"] = target.embeddings
    config = target.like(
        architectures=["LlamaForCausalLMEagle3"],
        num_hidden_layers=1,
        draft_vocab_size=target.config["vocab_size"],
        eagle_aux_hidden_state_layer_ids=None if layers is None else list(layers),
    )
    return Head(config, weights)


def medusa(target: Target) -> Head:
    """Medusa: heads that each guess a later token from the last hidden state."""
    weights: Weights = {}
    for head in range(MEDUSA_HEADS):
        weights[f"blocks.{head}.layers.0.weight"] = _noise(target.hidden, target.hidden)
        weights[f"lm_heads.{head}.weight"] = target.embeddings
    vocabulary = target.config["vocab_size"]
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": target.hidden,
        "vocab_size": vocabulary,
        "truncated_vocab_size": vocabulary,
        "num_heads": MEDUSA_HEADS,
        "num_hidden_layers": 1,
    }
    return Head(config, weights)


def mlp_speculator(target: Target) -> Head:
    """MLP speculator, as far as its configuration goes; the engines here refuse it before they read weights."""
    config = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": target.hidden,
        "inner_dim": target.hidden,
        "n_predict": 3,
        "top_k_tokens_per_head": [1, 1, 1],
        "n_candidates": 1,
        "vocab_size": target.config["vocab_size"],
    }
    return Head(config, {"speculator.emb.0.weight": target.embeddings})


def mtp_target(target: Target) -> Head:
    """The target itself as a MiMo model with one MTP layer; MiMo's attention has biases, here zero."""
    weights = {**target.weights, "lm_head.weight": target.embeddings}
    for layer in range(target.config["num_hidden_layers"]):
        weights |= _biases(target, f"model.layers.{layer}")
    prefix = "model.mtp_layers.0"
    weights |= {f"{prefix}.{name}": value for name, value in _layer(target).items()} | _biases(target, prefix)
    ones = np.ones(target.hidden, dtype=np.float32)
    weights |= {f"{prefix}.token_layernorm.weight": ones, f"{prefix}.hidden_layernorm.weight": ones}
    weights[f"{prefix}.final_layernorm.weight"] = target.weights["model.norm.weight"]
    weights[f"{prefix}.input_proj.weight"] = np.concatenate([_same(target.hidden), 0.3 * _same(target.hidden)], axis=1)
    kept = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "hidden_act",
            "eos_token_id", "pad_token_id", "dtype")  # fmt: skip
    config = {
        **{key: target.config[key] for key in kept},
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "tie_word_embeddings": False,
        "num_nextn_predict_layers": 1,
    }
    return Head(config, weights, with_tokenizer=True)


def dflash(target: Target) -> Head:
    """DFlash: one Qwen3 layer that fills masked places at once, reading three hidden states of the target."""
    size = target.config["head_dim"]
    weights = {f"layers.0.{name}": value for name, value in _layer(target).items()}
    for name in ("q_norm", "k_norm"):
        weights[f"layers.0.self_attn.{name}.weight"] = np.ones(size, dtype=np.float32)
    weights["hidden_norm.weight"] = np.ones(target.hidden, dtype=np.float32)
    weights["norm.weight"] = target.weights["model.norm.weight"]
    weights["fc.weight"] = _last_of_three(target.hidden)
    config = target.like(
        architectures=["DFlashDraftModel"],
        model_type="qwen3",
        num_hidden_layers=1,
        mlp_bias=None,
        dflash_config={
            "mask_token_id": target.config["pad_token_id"],
            "target_layer_ids": [n - 1 for n in INNER_LAYERS],
        },
    )
    return Head(config, weights)


HEADS: dict[str, Callable[[Target], Head]] = {
    "untrained-eagle": eagle,
    "untrained-eagle3": eagle3,
    "untrained-eagle3-open": lambda target: eagle3(target, layers=None),
    "untrained-medusa": medusa,
    "untrained-mlp": mlp_speculator,
    "untrained-mtp-target": mtp_target,
    "untrained-dflash": dflash,
}
"""Alias → how it is made."""


def _layer(target: Target, inputs: int | None = None) -> Weights:
    """A transformer layer that adds next to nothing, for attention over ``inputs`` features."""
    config, wide = target.config, inputs or target.hidden
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    inner, ones = config["intermediate_size"], np.ones(target.hidden, dtype=np.float32)
    return {
        "self_attn.q_proj.weight": _noise(queries, wide),
        "self_attn.k_proj.weight": _noise(keys, wide),
        "self_attn.v_proj.weight": _noise(keys, wide),
        "self_attn.o_proj.weight": _noise(target.hidden, queries),
        "mlp.gate_proj.weight": _noise(inner, target.hidden),
        "mlp.up_proj.weight": _noise(inner, target.hidden),
        "mlp.down_proj.weight": _noise(target.hidden, inner),
        "input_layernorm.weight": ones,
        "post_attention_layernorm.weight": ones,
    }


def _biases(target: Target, prefix: str) -> Weights:
    config = target.config
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"], "v": config["num_key_value_heads"]}
    return {
        f"{prefix}.self_attn.{name}_proj.bias": np.zeros(count * config["head_dim"], dtype=np.float32)
        for name, count in heads.items()
    }


def _same(size: int) -> Floats:
    return np.eye(size, dtype=np.float32)


def _last_of_three(size: int) -> Floats:
    """Takes the last of three hidden states beside each other."""
    return np.concatenate([np.zeros((size, 2 * size), dtype=np.float32), _same(size)], axis=1)


def _noise(rows: int, columns: int) -> Floats:
    """Small numbers; each shape has the same ones wherever it occurs."""
    chance = np.random.default_rng((SEED, rows, columns))
    return (chance.standard_normal((rows, columns)) * SCALE).astype(np.float32)
