"""What a model's own files say that it takes in memory: weights as the engine holds them, cache for one token.

Computed from headers and ``config.json``, never measured: a cross-check for what the engine prints, and the only word
on it where the engine prints nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from app.domain.memory import ModelMemory
from worker.model_files.config import Config, quantization, read_config
from worker.model_files.tree import ModelRefused, Tree, is_count, scan
from worker.model_files.weights import Tensor, held_bytes, tensors_of, weights_of

EMBEDDING: Final = "embed_tokens.weight"
OUTPUT: Final = "lm_head.weight"
_MTP_COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "n_predict")
_MTP_TENSOR = re.compile(r"(?:^|\.)mtp(?:_layers)?\.")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_OTHER_CACHES = ("kv_lora_rank", "sliding_window", "mamba_d_state", "linear_num_key_heads", "attn_type_list")
"""Where a configuration has one of these, not every layer caches two vectors for each head and token."""
_FULL = frozenset({"full_attention", "attention"})
CACHE_BYTES: Final = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}


class Held(NamedTuple):
    """How the engine holds models: its types, and over how many ranks."""

    dtype: str
    cache_dtype: str = "auto"
    ranks: int = 1

    @property
    def cache_bytes(self) -> int | None:
        """Bytes of one number in the cache."""
        name = (self.dtype if self.cache_dtype == "auto" else self.cache_dtype).removeprefix("torch.")
        return 1 if name.startswith("fp8") else CACHE_BYTES.get(name)


@dataclass(frozen=True, slots=True)
class _Model:
    """A model's files, and how the engine holds it."""

    tree: Tree
    config: Config
    held: Held

    @classmethod
    def of(cls, directory: Path, held: Held) -> "_Model":
        tree = _listed(directory)
        return cls(tree, read_config(tree), held)


def footprint(directory: Path, held: Held, *, shared: Sequence[str] = ()) -> ModelMemory:
    """The model in ``directory``, without a head for MTP; ``shared`` is what a draft takes from the target instead."""
    try:
        model = _Model.of(directory, held)
        tensors = [tensor for tensor in tensors_of(model.tree) if not _is_mtp(tensor, model.config)]
        return _footprint(model, tensors, shared, model.config.count("num_hidden_layers"))
    except ModelRefused as refusal:
        return _unknown(refusal)


def head_in_target(directory: Path, held: Held) -> ModelMemory:
    """The MTP head that the target's own checkpoint holds."""
    try:
        model = _Model.of(directory, held)
        tensors = [tensor for tensor in tensors_of(model.tree) if _is_mtp(tensor, model.config)]
        layers = next((n for key in _MTP_COUNTS if is_count(n := model.config.get(key))), None)
        return _footprint(model, tensors, (), layers)
    except ModelRefused as refusal:
        return _unknown(refusal)


def _footprint(model: _Model, tensors: Sequence[Tensor], shared: Sequence[str], layers: int | None) -> ModelMemory:
    kept = [tensor for tensor in tensors if not _is_spared(tensor, model.config, shared)]
    weights, words = _weights(model, kept, [tensor for tensor in tensors if tensor not in kept])
    each, how = _kv_bytes_per_token(model.config, model.held, layers)
    return ModelMemory(weights, words, weights_of(model.tree).size or None, each, how)


def _weights(model: _Model, kept: Sequence[Tensor], spared: Sequence[Tensor]) -> tuple[int | None, str]:
    name = model.tree.root.name
    if not kept:
        return None, f"{name}: no safetensors header tells"
    quantised = quantization(model.config, model.tree)
    dtype = model.held.dtype.removeprefix("torch.") if quantised == "none" else ""
    names = [tensor.name for tensor in (*kept, *spared)]
    parts = [
        f"{len(kept)} tensors of {name}'s safetensors headers, {dtype or f'as on disk (quantisation: {quantised})'}"
    ]
    parts += [f"{tensor.name} is not held a second time" for tensor in spared]
    if model.config.get("tie_word_embeddings") and not any(name.endswith(OUTPUT) for name in names):
        parts.append("tied embeddings are held once")
    if not any(name.endswith(EMBEDDING) for name in names):
        parts.append("no embeddings of its own: it uses the target's")
    return held_bytes(kept, dtype or None), ", ".join(parts)


def _kv_bytes_per_token(config: Config, held: Held, layers: int | None) -> tuple[int | None, str]:
    """Two vectors for each key-value head and layer; a head that fewer ranks could share is held by each."""
    heads = config.count("num_key_value_heads") or config.count("num_attention_heads")
    width, size = _head_dim(config), held.cache_bytes
    other = _other_cache(config)
    if other is not None:
        return None, f"{other} in its config.json: not every layer caches alike"
    if layers is None or heads is None or width is None or size is None:
        return None, "config.json does not say layers, heads and their width, or the cache's type is not known"
    heads = max(heads, held.ranks)
    return 2 * layers * heads * width * size, f"2 * {layers} layers * {heads} heads * {width} * {size} bytes"


def _head_dim(config: Config) -> int | None:
    stated, hidden, heads = (config.count(k) for k in ("head_dim", "hidden_size", "num_attention_heads"))
    return stated or (hidden // heads if hidden and heads else None)


def _other_cache(config: Config) -> str | None:
    """The key that says that layers do not all cache every token in full."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and not _FULL.issuperset(map(str, kinds)):  # pyright: ignore[reportUnknownArgumentType]
        return "layer_types"
    found = next((key for key in _OTHER_CACHES if config.get(key)), None)
    return None if found == "sliding_window" and config.get("use_sliding_window") is False else found


def _is_spared(tensor: Tensor, config: Config, shared: Sequence[str]) -> bool:
    """Whether the engine drops it for another tensor that it holds already."""
    if tensor.name.endswith(OUTPUT):
        return bool(config.get("tie_word_embeddings")) or "lm_head" in shared
    return tensor.name.endswith(EMBEDDING) and "embedding" in shared


def _is_mtp(tensor: Tensor, config: Config) -> bool:
    """A head for MTP stands under its own name, or as layers after the last of the model."""
    layer, layers = _LAYER.search(tensor.name), config.count("num_hidden_layers")
    beyond = layer is not None and layers is not None and int(layer[1]) >= layers
    return beyond or _MTP_TENSOR.search(tensor.name) is not None


def _listed(directory: Path) -> Tree:
    """The directory's files; a snapshot of the hub's cache links into the cache."""
    within = directory.parents[2] if directory.parent.name == "snapshots" else None
    return scan(directory, links_within=within)


def _unknown(refusal: ModelRefused) -> ModelMemory:
    words = "; ".join(f"{problem.field} {problem.message}" for problem in refusal.problems)
    return ModelMemory(None, words, None, None, words)
