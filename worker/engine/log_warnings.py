"""The warnings of vLLM that bear on a comparison (method D5), each with its effect and the reason for it.

``fails preflight``: the engine did something else than the manifest says. ``notice``: it did what was asked.
"""

import re
from dataclasses import dataclass

from app.domain.startup import StartupWarning, WarningEffect
from app.domain.startup_gates import LOSSY_VERIFICATION
from worker.engine.log_lines import MESSAGE_LENGTH_MAX, lines, redact


@dataclass(frozen=True, slots=True)
class KnownWarning:
    """A line that the engine may log, by a pattern that holds in several versions."""

    name: str
    pattern: re.Pattern[str]
    effect: WarningEffect
    reason: str


def _fails(name: str, pattern: str, reason: str) -> KnownWarning:
    return KnownWarning(name, re.compile(pattern), WarningEffect.FAILS_PREFLIGHT, reason)


def _notice(name: str, pattern: str, reason: str) -> KnownWarning:
    return KnownWarning(name, re.compile(pattern), WarningEffect.NOTICE, reason)


KNOWN_WARNINGS = (
    # the method or its k was chosen by the engine
    _fails(
        "method_renamed",
        r"method `.*` is deprecated and replaced with",
        "the engine runs a method of another name than the manifest's",
    ),
    _fails(
        "custom_proposer",
        r"Using a custom class-based proposer",
        "a Python class drafts: its code is not pinned and may do anything",
    ),
    _fails(
        "k_defaulted",
        r"Defaulted num_speculative_tokens",
        "the engine chose how many tokens to draft",
    ),
    _fails(
        "dynamic_k_unsupported",
        r"Dynamic speculative decoding is not supported",
        "the schedule of k by batch size was dropped for one fixed k",
    ),
    _fails(
        "draft_tp_changed",
        r"cannot currently be run with tp>1; setting speculative_draft_tensor_parallel_size",
        "the draft runs on fewer devices than the manifest says",
    ),
    # the target runs otherwise than without speculation
    _fails(
        "runner_replaced",
        r"Model Runner V2 (?:does not yet support|requires .*; using)",
        "the model runner is pinned, and the engine chose it by itself",
    ),
    _fails(
        "async_scheduling_off",
        r"Async scheduling (?:is disabled|not supported|is not compatible|will be disabled)",
        "asynchronous scheduling is pinned, and the engine chose it by itself",
    ),
    _fails(
        "cudagraph_mode_changed",
        r"Dynamic speculative decoding changes the target verification length|Overriding cudagraph_mode",
        "the target runs with other graphs than in target-only",
    ),
    _fails(
        "length_reduced",
        r"reducing max_model_len",
        "the target serves shorter contexts than the manifest says, to suit the draft",
    ),
    _fails(
        "dtype_replaced",
        r"Your device .* doesn't support .*\. Falling back to",
        "the engine computes in another dtype than the manifest's",
    ),
    _fails(
        "sampling_overridden",
        r"Default vLLM sampling parameters have been overridden",
        "the model's own file supplies sampling parameters, which requests state",
    ),
    # the draft is not what it was trained to be
    _fails(
        "draft_positions_extended",
        r"Overriding draft model max_position_embeddings",
        "the draft works at positions beyond those it was made for",
    ),
    _fails(
        "vocabulary_mapped",
        r"VocabMapping: .* falling back to eos_token_id|Very small vocabulary intersection",
        "drafts are cut down to the tokens that two vocabularies share, and others become end-of-text",
    ),
    _fails(
        "vocabulary_differs",
        r"Target and draft model should have the same vocabulary size",
        "draft and target number their tokens differently",
    ),
    _fails(
        "target_layer_missing",
        r"No target layer of type",
        "a part of the head found no layer of the target to read from",
    ),
    _fails(
        "head_part_skipped",
        r"mask_hidden found in weights but model is not configured for parallel drafting",
        "the head was made for parallel drafting, and that part of it is not used",
    ),
    # what verification does to outputs
    _fails(
        LOSSY_VERIFICATION,
        r"FLy verification is a lossy",
        "tokens come out that the target would not have chosen",
    ),
    _fails(
        "legacy_rejection",
        r"Missing cached draft probabilities .*; falling back",
        "sampled drafts were verified as if they were certain, which changes the distribution of outputs",
    ),
    _fails(
        "sampling_unsupported",
        r"sampling parameters are not yet supported with speculative decoding",
        "requests asked for sampling that verification does not do",
    ),
    _fails(
        "processors_unsupported",
        r"Custom logits processors are not supported when speculative decoding",
        "logits processors run in target-only and not with speculation",
    ),
    _fails(
        "grammar_rejected",
        r"grammar rejected tokens",
        "structured output refused tokens that verification had accepted",
    ),
    # what was asked for, and worth knowing
    _notice(
        "draft_length_cut",
        r"Overriding draft model max model len",
        "the draft could reach further than the target serves",
    ),
    _notice(
        "mtp_layer_repeated",
        r"Enabling num_speculative_tokens > 1 will run multiple times of forward",
        "one layer drafts several tokens in turn, so later positions may be accepted less",
    ),
    _notice(
        "multimodal_partial",
        r"does not fully support multimodal|does not support external multimodal embeddings",
        "the draft sees text only; so do the requests here",
    ),
    _notice(
        "sampling_limited",
        r"min_p and logit_bias parameters won't work with speculative decoding",
        "said at every start with speculation; requests here use neither",
    ),
    _notice(
        "scheduled_tokens_set",
        r"max_num_scheduled_tokens is set to",
        "drafts take slots of a step; an allowed consequence of speculation",
    ),
    _notice(
        "draft_eager",
        r"draft attention .* does not support full CUDA graphs",
        "the draft runs without graphs in this version",
    ),
    _notice(
        "cache_block_kept",
        r"EAGLE trailing prefix-cache block dropping is disabled",
        "asked for by disable_eagle_block_drop",
    ),
    _notice(
        "openmp_absent",
        r"Speculative decoding on CPU without Intel OpenMP",
        "the CPU engine would draft faster with another OpenMP library",
    ),
    _notice(
        "sampler_fallback",
        r"FlashInfer top-p/top-k sampling unavailable",
        "the sampler is the plain one, in every arm",
    ),
    _notice(
        "compiled_in_run",
        r"JIT compilation during inference",
        "a kernel was compiled while requests were served, which delays some of them",
    ),
)


def warnings(text: str) -> tuple[StartupWarning, ...]:
    """The known warnings in the log, each once, with secrets redacted."""
    found: dict[str, StartupWarning] = {}
    for line in lines(text):
        for known in KNOWN_WARNINGS:
            if known.name not in found and known.pattern.search(line):
                found[known.name] = _stated(known, line)
    return tuple(found.values())


def _stated(known: KnownWarning, line: str) -> StartupWarning:
    shown = redact(line)[:MESSAGE_LENGTH_MAX]
    return StartupWarning(name=known.name, effect=known.effect, reason=known.reason, line=shown)
