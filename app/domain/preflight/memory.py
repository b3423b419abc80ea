"""Do weights and at least one full sequence fit into the memory of one accelerator, or of the host without one?

An estimate from the files, not a promise: it fails only where the engine could not start.
"""

from dataclasses import dataclass

from app.domain.capability import ModelFacts
from app.domain.preflight.case import ArmCase
from app.domain.preflight.methods import RUNS_A_MODEL, mtp_layers
from app.domain.preflight.outcome import Check, Topic
from app.domain.serving import UNQUANTIZED
from app.domain.vocabulary import Method

GIB = 1024**3
BYTES_OF = {"bfloat16": 2, "float16": 2, "float32": 4}
WEIGHTS_FACTOR = 1.1
"""Weights and the working space that grows with them."""
ENGINE_BYTES_CPU = int(1.5 * GIB)
"""The engine's four processes without weights and cache; 2.5 GB were measured with 1 GiB of cache."""
SHARE_CUDA = 0.92
"""``gpu_memory_utilization``, which no launch changes."""
OTHER_CACHE = (
    *("deepseek", "kimi", "glm_moe_dsa", "longcat", "mamba", "falcon_h1", "nemotron_h", "qwen3_next", "qwen3_5"),
    *("qwen4", "jamba", "bamba", "zamba", "minimax", "bailing", "lfm2", "rwkv", "gpt_oss", "gemma"),
)
"""Beginnings of ``model_type`` whose cache is compressed, recurrent or partly local: ours would be too large."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on one accelerator. ``sequence`` is the cache of one sequence of ``max_model_len``; unknown is ``None``."""

    weights: int
    sequence: int | None


def memory(arm: ArmCase, topic: Topic) -> Check:
    """The arm fits, with the arithmetic in the reason."""
    topic = topic if arm.has_draft else topic.at("serving.max_model_len")
    need = need_of(arm)
    if need is None or arm.case.device is None:
        return topic.cannot_say("the runtime, the target's or the draft's files are not known here")
    return _on_cpu(arm, topic, need) if arm.case.device == "cpu" else _on_cuda(arm, topic, need)


def need_of(arm: ArmCase) -> Need | None:
    """What the arm needs; ``None`` where a model is not known."""
    target, draft, serving = arm.case.target, arm.draft, arm.case.manifest.serving
    if target is None or (arm.has_draft and draft is None):
        return None
    models = [target] if draft is None else [target, draft]
    weights = sum(_weights(m, serving.dtype) for m in models) // serving.tensor_parallel_size
    token = _token_bytes(arm, target, draft)
    sequence = None if token is None else token * serving.max_model_len // serving.tensor_parallel_size
    return Need(weights, sequence)


def _on_cpu(arm: ArmCase, topic: Topic, need: Need) -> Check:
    serving, memory_bytes = arm.case.manifest.serving, arm.case.host.memory_bytes
    stated = None if serving.kv_cache_space_gib is None else serving.kv_cache_space_gib * GIB
    cache = stated or need.sequence or 0
    total = int(need.weights * WEIGHTS_FACTOR) + cache + ENGINE_BYTES_CPU
    words = f"{_weights_words(need)} + {_cache_words(arm, need, stated)} + {_gib(ENGINE_BYTES_CPU)} for the engine"
    words = f"{words} = {_gib(total)} of {_gib(memory_bytes)}"
    if stated is not None and need.sequence is not None and need.sequence > stated:
        return topic.at("serving.kv_cache_space_gib").fails(words, "give it more, or lower serving.max_model_len")
    if total > memory_bytes:
        return topic.fails(words, "use a smaller model, or a host with more memory")
    return topic.passes(words)


def _on_cuda(arm: ArmCase, topic: Topic, need: Need) -> Check:
    usable = int(arm.case.host.memory_bytes * SHARE_CUDA)
    total = int(need.weights * WEIGHTS_FACTOR) + (need.sequence or 0)
    words = f"{_weights_words(need)} + {_cache_words(arm, need, None)} = {_gib(total)} of {_gib(usable)} usable on each"
    if total > usable:
        return topic.fails(words, "use more accelerators, a lower serving.max_model_len, or a smaller model")
    return topic.passes(words)


def _weights(model: ModelFacts, dtype: str) -> int:
    if model.parameters is None or model.quantization != UNQUANTIZED:
        return model.weights_bytes
    return model.parameters * BYTES_OF[dtype]


def _token_bytes(arm: ArmCase, target: ModelFacts, draft: ModelFacts | None) -> int | None:
    dtype, method = arm.case.manifest.serving.dtype, arm.arm.speculation.method
    own = _layer_bytes(target, dtype)
    if own is None or target.num_hidden_layers is None:
        return None
    total = own * (target.num_hidden_layers + (mtp_layers(target) or 0 if method is Method.MTP else 0))
    if draft is None or method not in RUNS_A_MODEL:
        return total
    drafts = _layer_bytes(draft, dtype)
    return None if drafts is None or draft.num_hidden_layers is None else total + drafts * draft.num_hidden_layers


def _layer_bytes(model: ModelFacts, dtype: str) -> int | None:
    """Keys and values of one token in one layer."""
    heads = model.num_key_value_heads or model.num_attention_heads
    if heads is None or (model.model_type or "").startswith(OTHER_CACHE):
        return None
    width = model.head_dim
    if width is None and model.hidden_size is not None and model.num_attention_heads:
        width = model.hidden_size // model.num_attention_heads
    return None if width is None else 2 * heads * width * BYTES_OF[dtype]


def _weights_words(need: Need) -> str:
    return f"weights {_gib(need.weights)} x {WEIGHTS_FACTOR}"


def _cache_words(arm: ArmCase, need: Need, stated: int | None) -> str:
    serving = arm.case.manifest.serving
    if need.sequence is None:
        return "a cache that cannot be estimated for this kind of model"
    one = f"one sequence of {serving.max_model_len:,} tokens needs {_gib(need.sequence)}"
    all_of = f"{serving.max_num_seqs} together {_gib(need.sequence * serving.max_num_seqs)}"
    cache = _gib(stated or need.sequence)
    return f"cache {cache} ({one}, {all_of})"


def _gib(count: int) -> str:
    return f"{count / GIB:,.2f} GiB"
