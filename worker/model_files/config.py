"""What ``config.json`` and ``generation_config.json`` say of a model, in the words of ``ModelFacts``.

A value of the wrong kind is not known; it is never repaired. What leaves is bounded and can be stored anywhere.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.canonical import canonical_json
from worker.model_files.tree import INTEGER_MAX, JsonObject, ModelRefused, Tree, is_clean, is_count, is_object

CONFIG = "config.json"
CONFIG_BYTES_MAX = 4 * 1024**2
QUANTIZATION_CONFIG = "hf_quant_config.json"
SPOKEN_BYTES_MAX = 64 * 1024
"""Rope settings and the keys of a head leave as they are; a configuration that floods them is refused."""
SPOKEN_DEPTH_MAX = 8
ARCHITECTURES_MAX = 16
NAME_LENGTH_MAX = 200

NESTED = ("text_config", "llm_config", "language_config", "transformer_layer_config")
"""Where configurations of several parts keep the language model's."""
COUNTS = {
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "emb_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "vocab_size": ("vocab_size",),
}
"""Fact → the keys that families use for it, the usual one first."""
ROPE_KEYS = frozenset({"partial_rotary_factor", "original_max_position_embeddings"})
ROPE_PREFIXES = ("rope_", "rotary_")
HEAD_KEYS = frozenset(
    {
        "aux_hidden_state_layer_ids",
        "dflash_config",
        "draft_vocab_size",
        "inner_dim",
        "max_paths",
        "mtp_num_hidden_layers",
        "n_candidates",
        "n_predict",
        "norm_before_fc",
        "norm_before_residual",
        "num_lookahead_tokens",
        "num_aux_hidden_states",
        "num_mtp_modules",
        "num_nextn_predict_layers",
        "parallel_drafting",
        "pard_token",
        "ptd_token_id",
        "speculators_config",
        "speculators_model_type",
        "target_hidden_size",
        "target_layer_ids",
        "top_k_tokens_per_head",
        "truncated_vocab_size",
    }
)
HEAD_PREFIXES = ("dspark_", "eagle_", "markov_", "medusa_")
HEAD_KEYS_BESIDE_OTHERS = frozenset({"block_size", "mask_token_id", "num_heads", "topk"})
"""Ordinary models have these too, with another meaning."""


@dataclass(frozen=True, slots=True)
class Config:
    """``config.json``: the whole, and the part that describes the language model."""

    whole: JsonObject
    text: JsonObject

    def get(self, key: str) -> Any:
        """The language model's value, or else the whole's; ``None`` where neither has one."""
        value = self.text.get(key)
        return self.whole.get(key) if value is None else value

    def count(self, fact: str) -> int | None:
        """A whole number from 0 on, under any name that families use for ``fact``."""
        return next((value for key in COUNTS[fact] if is_count(value := self.get(key))), None)

    def key_names(self) -> list[str]:
        """Every key of the whole and of the language model's part."""
        return sorted({*self.whole, *self.text})


def read_config(tree: Tree) -> Config:
    """Raises ``ModelRefused`` where ``config.json`` is missing or is no JSON object."""
    whole = tree.json(CONFIG, limit=CONFIG_BYTES_MAX)
    thinker = whole.get("thinker_config")
    outer = thinker if is_object(thinker) else whole
    parts = [outer.get(key) for key in NESTED]
    if whole.get("model_type") == "eagle":
        parts.append(whole.get("model"))
    return Config(whole, next((part for part in parts if is_object(part)), outer))


def config_facts(config: Config, generation: JsonObject) -> dict[str, Any]:
    """The fields of ``ModelFacts`` that the two files decide. Raises ``ModelRefused`` for what cannot be stored."""
    return {
        "architectures": tuple(_architectures(config)),
        "model_type": short(config.whole.get("model_type")),
        **{fact: config.count(fact) for fact in COUNTS},
        "rope": _spoken(rope(config)),
        "eos_token_ids": tuple(sorted({*_ids(config.whole), *_ids(config.text), *_ids(generation)})),
        "needs_remote_code": bool(config.whole.get("auto_map")),
        "is_speculators_format": config.whole.get("speculators_config") is not None,
        "head": _spoken({key: config.get(key) for key in _head_keys(config)}),
    }


def rope(config: Config) -> dict[str, Any]:
    """The rope settings, written the same way for the older and the newer form of configuration.

    ``rope_theta`` stands alone, ``rope_scaling`` only where it scales, its kind under ``rope_type``.
    """
    found = {key: config.get(key) for key in config.key_names() if key in ROPE_KEYS or key.startswith(ROPE_PREFIXES)}
    scaling = found.pop("rope_scaling", None)
    parameters = found.pop("rope_parameters", None)
    if is_object(parameters) and any(is_object(value) for value in parameters.values()):
        found["rope_parameters"] = parameters  # one for each kind of layer
    elif is_object(parameters):
        scaling = dict(parameters)
        found |= {key: scaling.pop(key) for key in ("rope_theta", "partial_rotary_factor") if key in scaling}
    return found | _scaling(scaling)


def quantization(config: Config, tree: Tree) -> str:
    """The method by which the weights are quantised, in the file's own word; ``none`` without one.

    Raises ``ModelRefused`` where a quantisation is described but not named.
    """
    for described in (config.get("quantization_config"), config.whole.get("compression_config")):
        if described:
            return _named(CONFIG, described.get("quant_method") if is_object(described) else None)
    if QUANTIZATION_CONFIG in tree:
        producer = tree.json(QUANTIZATION_CONFIG).get("producer")
        return _named(QUANTIZATION_CONFIG, producer.get("name") if is_object(producer) else None)
    return "none"


def short(value: object) -> str | None:
    """A text that fits on a line; ``None`` for anything else."""
    return value if isinstance(value, str) and len(value) <= NAME_LENGTH_MAX and is_clean(value) else None


def _named(file: str, method: object) -> str:
    if not (found := short(method)):
        raise ModelRefused.of(file, "describes a quantisation without naming its method", "add quant_method")
    return found.lower()


def _architectures(config: Config) -> Iterator[str]:
    stated = config.whole.get("architectures") or config.text.get("architectures")
    names = stated[:ARCHITECTURES_MAX] if isinstance(stated, list) else []
    yield from (found for name in names if (found := short(name)))


def _ids(settings: JsonObject) -> Iterator[int]:
    stated = settings.get("eos_token_id")
    yield from (value for value in (stated if isinstance(stated, list) else [stated]) if is_count(value))


def _head_keys(config: Config) -> set[str]:
    keys = set(config.key_names())
    sure = {key for key in keys if key in HEAD_KEYS or key.startswith(HEAD_PREFIXES)}
    return sure | (keys & HEAD_KEYS_BESIDE_OTHERS) if sure or config.whole.get("model_type") == "medusa" else set()


def _scaling(scaling: object) -> dict[str, Any]:
    if not is_object(scaling):
        return {}
    kind = scaling.get("rope_type", scaling.get("type"))
    settings = {key: value for key, value in scaling.items() if key not in {"type", "rope_type"}}
    return {"rope_scaling": {**settings, "rope_type": kind}} if settings or kind not in {None, "default"} else {}


def _spoken(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON that every store takes, without nulls."""
    plain: dict[str, Any] = _plain(
        {key: value for key, value in settings.items() if value is not None}, SPOKEN_DEPTH_MAX
    )
    if len(canonical_json(plain)) > SPOKEN_BYTES_MAX:
        message = f"has more than {SPOKEN_BYTES_MAX:,} bytes of rope or head settings"
        raise ModelRefused.of(CONFIG, message, "check where it comes from")
    return plain


def _plain(value: object, depth: int) -> Any:
    if depth == 0:
        raise ModelRefused.of(CONFIG, "nests its rope or head settings too deeply", "check where it comes from")
    if is_object(value):
        return {_plain(key, depth): _plain(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth - 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, str) and not is_clean(value):
        raise ModelRefused.of(CONFIG, "has a text that is not Unicode", "restore the file")
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise ModelRefused.of(CONFIG, "has a number beyond 63 bits", "restore the file")
    return value
