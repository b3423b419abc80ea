"""The engine's warnings by their effect; each line is as an engine of some version writes it."""

from pathlib import Path

import pytest

from app.domain.startup import WarningEffect
from worker.engine.log_warnings import KNOWN_WARNINGS, warnings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "engine"
FAILS, NOTICE = WarningEffect.FAILS_PREFLIGHT, WarningEffect.NOTICE
STAMP = "(EngineCore pid=22103) WARNING 11-29 15:41:38 [speculative.py:1] "

# As the design's list (method D5) has them, one for each alternative, and those that were added to it.
LINES = [
    ("method `deepseek_mtp` is deprecated and replaced with mtp.", "method_renamed", FAILS),
    ("Using a custom class-based proposer backend. This is an experimental feature", "custom_proposer", FAILS),
    ("Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer", "mtp_layer_repeated",
     NOTICE),
    ("Defaulted num_speculative_tokens to 24 for suffix decoding.", "k_defaulted", FAILS),
    ("FLy verification is a lossy speculative decoding method and may degrade outputs.", "lossy_verification", FAILS),
    ("Dynamic speculative decoding is not supported with data parallelism because", "dynamic_k_unsupported", FAILS),
    ("Dynamic speculative decoding changes the target verification length at runtime. Overriding cudagraph_mode",
     "cudagraph_mode_changed", FAILS),
    ("Model Runner V2 does not yet support speculative method 'medusa'; using the V1 model runner instead.",
     "runner_replaced", FAILS),
    ("Model Runner V2 requires Triton; using the V1 model runner instead.", "runner_replaced", FAILS),
    ("Async scheduling is disabled because the V1 model runner does not support it with pipeline parallelism.",
     "async_scheduling_off", FAILS),
    ("Async scheduling not supported with ngram-based speculative decoding and will be disabled.",
     "async_scheduling_off", FAILS),
    ("Async scheduling is not compatible with disable_padded_drafter_batch=True and will be disabled.",
     "async_scheduling_off", FAILS),
    ("Overriding draft model max model len from 2048 to 512", "draft_length_cut", NOTICE),
    ("Overriding draft model max_position_embeddings from 2048 to the target model's max_model_len (8192)",
     "draft_positions_extended", FAILS),
    ("reducing max_model_len to 2048", "length_reduced", FAILS),
    ("VocabMapping: target tokenizer has no unk_token_id; falling back to eos_token_id=0 for out-of-intersection",
     "vocabulary_mapped", FAILS),
    ("Very small vocabulary intersection (12 tokens).", "vocabulary_mapped", FAILS),
    ("Missing cached draft probabilities for request cmpl-1; falling back to legacy speculative rejection behavior.",
     "legacy_rejection", FAILS),
    ("Speculative Decoding with draft models or parallel drafting does not fully support multimodal models yet.",
     "multimodal_partial", NOTICE),
    ("Draft model Eagle does not support external multimodal embeddings.", "multimodal_partial", NOTICE),
    ("No target layer of type 'full_attention' for draft layer 2", "target_layer_missing", FAILS),
    ("Unexpected: grammar rejected tokens [1, 2] for request x.", "grammar_rejected", FAILS),
    ("The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.",
     "sampling_unsupported", FAILS),
    ("Custom logits processors are not supported when speculative decoding is enabled.", "processors_unsupported",
     FAILS),
    ("Target and draft model should have the same vocabulary size.", "vocabulary_differs", FAILS),
    ("Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{}`.",
     "sampling_overridden", FAILS),
    ("mask_hidden found in weights but model is not configured for parallel drafting. Skipping loading mask_hidden.",
     "head_part_skipped", FAILS),
    ("mlp_speculator cannot currently be run with tp>1; setting speculative_draft_tensor_parallel_size=1",
     "draft_tp_changed", FAILS),
    ("Your device 'cpu' doesn't support torch.bfloat16. Falling back to torch.float32 for compatibility.",
     "dtype_replaced", FAILS),
    ("min_p and logit_bias parameters won't work with speculative decoding.", "sampling_limited", NOTICE),
    ("max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings.", "scheduled_tokens_set",
     NOTICE),
    ("dflash draft attention (X) does not support full CUDA graphs; running the draft eagerly.", "draft_eager", NOTICE),
    ("EAGLE trailing prefix-cache block dropping is disabled. This is experimental", "cache_block_kept", NOTICE),
    ("Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD will cause significant performance loss.",
     "openmp_absent", NOTICE),
    ("FlashInfer top-p/top-k sampling unavailable: no; falling back.", "sampler_fallback", NOTICE),
    ("Triton kernel JIT compilation during inference: rejection_greedy_sample_kernel.", "compiled_in_run", NOTICE),
]  # fmt: skip


def log(name: str) -> str:
    return (FIXTURES / f"{name}.log").read_text()


@pytest.mark.parametrize(("line", "name", "effect"), LINES)
def test_each_line_is_known_by_one_name_and_effect(line: str, name: str, effect: WarningEffect) -> None:
    (found,) = warnings(f"{STAMP}{line}\n")
    assert (found.name, found.effect) == (name, effect)
    assert found.line == line
    assert found.reason


def test_no_known_warning_is_untested() -> None:
    assert {known.name for known in KNOWN_WARNINGS} == {name for _, name, _ in LINES}
    assert len({known.name for known in KNOWN_WARNINGS}) == len(KNOWN_WARNINGS)


def test_the_log_of_an_unpinned_engine() -> None:
    found = {warning.name: warning for warning in warnings(log("ngram_startup"))}
    assert found.keys() == {"async_scheduling_off", "runner_replaced", "sampling_limited"}
    assert "with ngram" in found["async_scheduling_off"].line


def test_a_warning_said_by_every_process_is_kept_once() -> None:
    assert len(warnings(f"{STAMP}{LINES[0][0]}\n" * 3)) == 1


def test_a_secret_in_a_warning_is_redacted() -> None:
    (found,) = warnings(f"{STAMP}Defaulted num_speculative_tokens, token=hf_abcdefghijklmnop\n")
    assert "abcdefgh" not in found.line
