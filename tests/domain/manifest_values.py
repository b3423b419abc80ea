"""Manifests that state every field, and for every value another one that is valid too.

What is true of them is true of the format: a new field that is not stated here fails a test.
"""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from app.domain.vocabulary import Method
from tests.factories import DRAFT, manifest_document

_SHA = st.text("0123456789abcdef", min_size=64, max_size=64)
_COMMIT = st.text("0123456789abcdef", min_size=40, max_size=40)
_NAME = st.from_regex(r"\A[a-z][a-z0-9._-]{0,20}\Z")
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40).filter(
    lambda text: not text.startswith("-") and not text.strip().startswith("<")
)
_MODEL = st.builds("org/{}@{}".format, _NAME, _COMMIT) | st.builds("local:{}@sha256:{}".format, _NAME, _SHA)
_RUNTIME = st.builds("vllm 0.32.0 sha256:{}".format, _SHA) | st.builds(
    "vllm 0.33.0 vllm/vllm-openai@sha256:{}".format, _SHA
)
_K = st.integers(1, 64)
_SHARE = st.floats(0, 1)
_WORD = st.sampled_from(["fp8", "awq_marlin", "compressed-tensors", "auto"])
_MILLISECONDS = st.floats(0.001, 86_400_000)

_SWITCHES = (
    "use_heterogeneous_vocab",
    "parallel_drafting",
    "disable_padded_drafter_batch",
    "use_local_argmax_reduction",
    "enforce_eager",
)
_ALL_SWITCHES = (
    *_SWITCHES,
    "disable_eagle_block_drop",
    "index_share_for_mtp_iteration",
    "enable_adaptive_verification",
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": _NAME,
    "purpose": st.sampled_from(["verdict", "overhead_profiling"]),
    "target_model": _MODEL,
    "target_tokenizer": _MODEL,
    "files.tokenizer": _SHA,
    "files.chat_template": _SHA | st.just("none"),
    "files.generation_config": _SHA | st.just("none"),
    "runtime": _RUNTIME,
    "engine_below_floor": _TEXT,
    "serving.dtype": st.sampled_from(["float16", "bfloat16", "float32"]),
    "serving.quantization": _WORD,
    "serving.tensor_parallel_size": st.integers(1, 64),
    "serving.max_model_len": st.integers(16, 1_048_576),
    "serving.max_num_seqs": st.integers(1, 4096),
    "serving.prefix_caching": st.booleans(),
    "serving.enforce_eager": st.booleans(),
    "serving.async_scheduling": st.booleans(),
    "serving.kv_cache_space_gib": st.integers(1, 1024),
    "sampling.temperature": st.floats(0, 2),
    "sampling.top_p": st.floats(0.001, 1),
    "sampling.seed": st.integers(0, 2**32 - 1),
    "sampling.ignore_eos": st.booleans(),
    "sampling.top_k": st.integers(1, 1_000_000),
    "sampling.min_p": _SHARE,
    "sampling.presence_penalty": st.floats(-2, 2),
    "sampling.frequency_penalty": st.floats(-2, 2),
    "sampling.repetition_penalty": st.floats(0.001, 2),
    "hardware.accelerator": _TEXT,
    "hardware.count": st.integers(1, 64),
    "hardware.topology": _TEXT,
    "software.driver": _TEXT,
    "software.cuda": _TEXT,
    "software.os": _TEXT,
    "software.kernel": _TEXT,
    "arms[].name": _NAME,
    "arms[].draft_or_speculator": _MODEL,
    "arms[].as_deployed": st.none(),  # a second target-only: no arm here could have it
    "arms[].provenance.training_data": _TEXT,
    "arms[].provenance.target_revision": _TEXT,
    "arms[].provenance.training_cost": _TEXT,
    "arms[].provenance.licence": _TEXT,
    "arms[].speculation.method": st.sampled_from(["ngram_gpu", "extract_hidden_states", "suffix"]),
    "arms[].speculation.num_speculative_tokens": st.integers(4, 64),
    "arms[].speculation.rejection_sampling": st.sampled_from(["standard", "block"]),
    "arms[].speculation.draft_sample_method": st.sampled_from(["greedy", "probabilistic"]),
    "arms[].speculation.num_speculative_tokens_per_batch_size": st.lists(st.integers(0, 4), min_size=1, max_size=4).map(
        lambda ks: [[i + 1, i + 1, k] for i, k in enumerate(ks)]
    ),
    "arms[].speculation.prompt_lookup_min": st.integers(1, 8),
    "arms[].speculation.prompt_lookup_max": st.integers(8, 64),
    "arms[].speculation.suffix_decoding_max_tree_depth": _K,
    "arms[].speculation.suffix_decoding_max_cached_requests": st.integers(0, 10_000_000),
    "arms[].speculation.suffix_decoding_max_spec_factor": st.floats(0, 64),
    "arms[].speculation.suffix_decoding_min_token_prob": _SHARE,
    "arms[].speculation.draft_tensor_parallel_size": st.integers(1, 64),
    "arms[].speculation.quantization": _WORD,
    "arms[].speculation.max_model_len": st.integers(16, 1_048_576),
    "arms[].speculation.attention_backend": _WORD,
    "arms[].speculation.moe_backend": _WORD,
    "arms[].speculation.kv_cache_dtype": _WORD,
    "arms[].speculation.draft_lm_head_quantization": _WORD,
    "arms[].speculation.dspark_draft_topk": st.integers(1, 1_048_576),
    **{f"arms[].speculation.{key}": st.booleans() for key in _ALL_SWITCHES},
    "arms[].speculation.synthetic_acceptance_rates": st.lists(_SHARE, min_size=4, max_size=4).map(
        lambda rates: sorted(rates, reverse=True)
    ),
    "arms[].speculation.synthetic_acceptance_length": st.floats(1, 5),
    "workloads[].name": _NAME,
    "workloads[].trace": _SHA,
    "workloads[].degenerate_margin": st.floats(0.001, 0.999),
    "workloads[].quality.scorer": st.sampled_from(["exact", "normalised"]),
    "workloads[].quality.correct_from": st.floats(0.001, 1),
    "workloads[].quality.margin": st.floats(0.001, 0.999),
    "workloads[].quality.samples": st.integers(1, 1_000_000),
    "workloads[].quality.pattern": st.sampled_from(["[a-z]+", "(a+)+", "yes|no"]),
    "workloads[].quality.json_schema": st.sampled_from(['{"type":"integer"}', '{"const":null}', "{}"]),
    "workloads[].quality.absolute_tolerance": st.floats(0, 1e300),
    "workloads[].quality.relative_tolerance": st.floats(0, 1e300),
    "workloads[].quality.measure": st.sampled_from(["token_f1", "rouge_l"]),
    "workloads[].quality.timeout_s": st.floats(0.1, 60),
    "loads[].name": _NAME.filter(lambda name: name != "warmup"),
    "loads[].regime": st.sampled_from(["latency", "serving"]),
    "loads[].rate_rps": st.floats(0.001, 10_000),
    "loads[].clients": st.integers(1, 4096),
    "blocks": st.integers(9, 100),
    "looks": st.sampled_from([[5], [6], [5, 6], [5, 6, 7, 8]]),
    "schedule_seed": st.integers(0, 2**63 - 1),
    "slo.ttft_ms": _MILLISECONDS,
    "slo.tpot_ms": _MILLISECONDS,
    "slo.e2e_ms": _MILLISECONDS,
    "margins.delta": st.floats(0.001, 0.999),
    "margins.confidence": st.floats(0.501, 0.999),
    "family.comparisons": st.sampled_from(["all", ["suffix"], ["suffix", "mtp"], ["mtp", "suffix"]]),
}
"""A field, with ``[]`` for any list entry → its valid values."""


ONE_VALUE = {"format", "session_policy", "family.correction", "loads[].kind"}
"""Fields whose value follows from the rest, or of which there is only one yet."""

_QUALITIES: tuple[dict[str, Any], ...] = (
    {"scorer": "exact", "correct_from": 0.9, "margin": 0.05, "samples": 100},
    {"scorer": "regex", "pattern": "[a-c]"},
    {"scorer": "json_schema", "json_schema": '{"type":"object"}'},
    {"scorer": "numeric", "absolute_tolerance": 0.5, "relative_tolerance": 0.01},
    {"scorer": "overlap", "correct_from": 0.8, "measure": "rouge_l"},
    {"scorer": "unit_tests", "timeout_s": 2},
)

_MODEL_KEYS: dict[str, Any] = {
    "draft_sample_method": "greedy",
    "draft_tensor_parallel_size": 1,
    "quantization": "gptq",
    "max_model_len": 512,
    "attention_backend": "FLASH_ATTN",
    "moe_backend": "triton",
    "kv_cache_dtype": "fp8_e4m3",
    "draft_lm_head_quantization": "int8",
    **dict.fromkeys(_SWITCHES, False),
}


def _arm(name: str, method: Method, draft: str = "none", **keys: Any) -> dict[str, Any]:
    speculation = {"method": str(method), "num_speculative_tokens": 4, **keys}
    provenance = {"training_data": "d", "target_revision": "r", "training_cost": "c", "licence": "l"}
    rest = {"draft_or_speculator": draft, "provenance": provenance} if draft != "none" else {}
    return {"name": name, "speculation": speculation, **rest}


def full_document() -> dict[str, Any]:
    """A valid manifest in the frozen form in which every field that verdicts may have is stated."""
    return manifest_document(
        format="verdraft/manifest/v0",
        purpose="verdict",
        engine_below_floor="the recipe for this accelerator needs it",
        files={"tokenizer": "d" * 64, "chat_template": "none", "generation_config": "e" * 64},
        serving={
            "dtype": "bfloat16",
            "quantization": "gptq_marlin",
            "tensor_parallel_size": 2,
            "max_model_len": 4096,
            "max_num_seqs": 32,
            "prefix_caching": False,
            "enforce_eager": True,
            "async_scheduling": False,
            "kv_cache_space_gib": 3,
        },
        sampling={
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 7,
            "ignore_eos": False,
            "top_k": 40,
            "min_p": 0.05,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "repetition_penalty": 1.1,
        },
        arms=[
            {"name": "target-only", "speculation": {"method": "target_only"}},
            _arm("plain", Method.NGRAM_GPU, rejection_sampling="block"),
            _arm(
                "ngram",
                Method.NGRAM,
                prompt_lookup_min=2,
                prompt_lookup_max=9,
                num_speculative_tokens_per_batch_size=[[1, 8, 4], [9, 64, 0]],
            ),
            _arm(
                "suffix",
                Method.SUFFIX,
                suffix_decoding_max_tree_depth=24,
                suffix_decoding_max_cached_requests=1,
                suffix_decoding_max_spec_factor=1.5,
                suffix_decoding_min_token_prob=0.25,
            ),
            _arm("draft", Method.DRAFT_MODEL, DRAFT, **_MODEL_KEYS),
            _arm("mtp", Method.MTP, index_share_for_mtp_iteration=False, disable_eagle_block_drop=False),
            _arm("dspark", Method.DSPARK, enable_adaptive_verification=False, dspark_draft_topk=5),
        ],
        workloads=[
            {"name": f"w{place}", "trace": f"{place}" * 64, "degenerate_margin": 0.03, "quality": quality}
            for place, quality in enumerate(_QUALITIES)
        ],
        loads=[
            {"name": "low", "kind": "open_loop", "regime": "latency", "rate_rps": 4.0},
            {"name": "many", "kind": "closed_loop", "regime": "serving", "clients": 8},
        ],
        session_policy="per_arm",
        blocks=12,
        looks=[5, 8],
        margins={"delta": 0.07, "confidence": 0.9},
        family={"comparisons": ["ngram", "suffix"], "correction": "holm"},
    )


def lossy_document() -> dict[str, Any]:
    """A valid manifest with the keys that only overhead profiling may have."""
    lossy = {"rejection_sampling": "synthetic"}
    return manifest_document(
        purpose="overhead_profiling",
        arms=[
            {"name": "target-only", "speculation": {"method": "target_only"}},
            _arm("rates", Method.NGRAM, **lossy, synthetic_acceptance_rates=[0.8, 0.5, 0.2, 0.1]),
            _arm("length", Method.NGRAM, **lossy, synthetic_acceptance_length=2.5),
        ],
    )


Path = tuple[str | int, ...]


def leaves(value: Any, where: Path = ()) -> Iterator[Path]:
    """The path of every single value; a list that does not hold objects is one value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*where, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from leaves(item, (*where, index))
    else:
        yield where


def field_of(path: Path) -> str:
    """``arms[].name`` for ``("arms", 2, "name")``."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def value_at(document: Any, path: Path) -> Any:
    """The value at a path."""
    for step in path:
        document = document[step]
    return document


def with_value(document: Any, path: Path, value: Any) -> Any:
    """A copy of the document with the value at a path replaced."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        return [with_value(item, rest, value) if index == step else item for index, item in enumerate(document)]
    return {**document, step: with_value(document[step], rest, value)}
