"""Does the installed engine know the method and its keys, and would it do what they say?

Names come from the runtime itself; what it accepts and then does not do, or does only on some devices, is written here.
"""

from collections.abc import Iterator

from app.domain.launch import MODEL_RUNNER_V2
from app.domain.preflight.case import ArmCase
from app.domain.preflight.methods import ASYNC_METHODS, FIXED_LENGTH, RUNS_A_MODEL
from app.domain.preflight.outcome import Check, Topic
from app.domain.preflight.runtime import no_runtime, version_of
from app.domain.vocabulary import DraftSampling, Method, Purpose, RejectionSampling

RUNNER_V1 = MODEL_RUNNER_V2 == "0"
"""Every launch states the model runner; see ``app/domain/launch.py``."""

_POLICY = {
    Method.CUSTOM_CLASS: "it would run a Python class that the manifest names",
    Method.EXTRACT_HIDDEN_STATES: "it returns the sampled token as its draft, and so proposes nothing",
}
_NOT_ON_CPU = {
    Method.NGRAM_GPU: "its buffers need pinned memory, which the CPU build cannot allocate",
}
"""``GPUModelRunner.__init__`` makes them with ``pin_memory=True``: the server does not start."""
_NOT_ON_RUNNER_V1 = {
    Method.DSPARK: "only model runner V2 has it, and every arm runs on V1",
}
"""``VllmConfig._get_v1_model_runner_unsupported_features``."""


def method_known(arm: ArmCase, topic: Topic) -> Check:
    """The installed ``SpeculativeConfig`` takes the method."""
    runtime, method = arm.case.runtime, arm.arm.speculation.method
    if runtime is None or not runtime.methods:
        return no_runtime(topic)
    if method in runtime.methods:
        return topic.passes(f"vLLM {runtime.version} has method {method}")
    return topic.fails(f"vLLM {runtime.version} has no method {method}", f"use one of {', '.join(runtime.methods)}")


def method_allowed(arm: ArmCase, topic: Topic) -> Check:
    """The method proposes tokens, and with code of the engine's own."""
    reason = _POLICY.get(arm.arm.speculation.method)
    if reason is not None:
        return topic.refuses(reason, "use a method that drafts with the engine's own code")
    return topic.passes("it drafts with the engine's own code")


def keys_known(arm: ArmCase, topic: Topic) -> Check:
    """``--speculative-config`` of this runtime has every key that would be sent."""
    runtime = arm.case.runtime
    if runtime is None or not runtime.speculative_keys:
        return no_runtime(topic)
    sent = arm.arm.speculation.speculative_config("draft" if arm.has_draft else None) or {}
    unknown = [key for key in sent if key not in runtime.speculative_keys]
    if unknown:
        field = arm.field(f"speculation.{_field_of(unknown[0])}")
        return topic.at(field).fails(f"vLLM {runtime.version} does not know {', '.join(unknown)}", "leave them out")
    return topic.passes(f"vLLM {runtime.version} knows {', '.join(sent)}")


def rejection_sampling(arm: ArmCase, topic: Topic) -> Check:
    """The way drafts are accepted exists, is really used, and leaves outputs right."""
    mode, runtime = arm.arm.speculation.rejection_sampling, arm.case.runtime
    if mode.lossy and arm.case.manifest.purpose is not Purpose.OVERHEAD_PROFILING:
        return topic.refuses(f"{mode} changes outputs", "use standard, or set purpose to overhead_profiling")
    if mode is RejectionSampling.BLOCK and RUNNER_V1:
        return topic.refuses("model runner V1 takes `block` and silently samples by `standard`", "use standard")
    if mode is RejectionSampling.SYNTHETIC and arm.case.device == "cpu":
        # cpu_triton_utils: "Synthetic acceptance not supported with CPU sampling", at the first request
        return topic.fails("on the CPU the first request with `synthetic` kills the engine", "use standard, or a GPU")
    if runtime is None or not runtime.rejection_sample_methods:
        return no_runtime(topic)
    if mode not in runtime.rejection_sample_methods:
        known = ", ".join(runtime.rejection_sample_methods)
        return topic.fails(f"vLLM {runtime.version} has no rejection sampling {mode}", f"use one of {known}")
    return topic.passes(f"vLLM {runtime.version} has {mode}")


def draft_sampling(arm: ArmCase, topic: Topic) -> Check | None:
    """The way a draft picks its tokens exists and is really used."""
    speculation, runtime = arm.arm.speculation, arm.case.runtime
    stated = speculation.draft_sample_method
    if stated is None:
        return None
    if runtime is None or not runtime.draft_sample_methods:
        return no_runtime(topic)
    if stated not in runtime.draft_sample_methods:
        known = ", ".join(runtime.draft_sample_methods)
        return topic.fails(f"vLLM {runtime.version} has no draft sampling {stated}", f"use one of {known}")
    if stated is DraftSampling.PROBABILISTIC and (ignored := _probabilities_ignored(arm)):
        return topic.fails(ignored, "use greedy, or leave it out")
    return topic.passes(f"drafts are picked by {stated}")


def device_support(arm: ArmCase, topic: Topic) -> Check:
    """The method works on this device, on the model runner of every arm, with what is installed."""
    method, runtime = arm.arm.speculation.method, arm.case.stated_runtime
    if RUNNER_V1 and method in _NOT_ON_RUNNER_V1:
        return topic.fails(_NOT_ON_RUNNER_V1[method], "use another method")
    if runtime is None:
        return no_runtime(topic)
    if runtime.device == "cpu" and method in _NOT_ON_CPU:
        return topic.fails(_NOT_ON_CPU[method], "use ngram, or a GPU")
    if method is Method.SUFFIX:
        return _suffix_library(arm, topic)
    return topic.passes(f"nothing is known against {method} on {runtime.device}")


def async_scheduling(arm: ArmCase, topic: Topic) -> Check | None:
    """The engine would keep asynchronous scheduling on, as stated for every arm."""
    if not arm.case.manifest.serving.async_scheduling:
        return None
    method = arm.arm.speculation.method
    if arm.case.device == "cpu":  # CpuPlatform.check_and_update_config
        return topic.fails("the CPU build turns asynchronous scheduling off in silence", "set it to false")
    if method not in ASYNC_METHODS:
        return topic.fails(f"the engine refuses asynchronous scheduling with {method}", "set it to false")
    if arm.arm.speculation.disable_padded_drafter_batch:
        return topic.fails("the engine refuses it with disable_padded_drafter_batch", "set it to false")
    return topic.passes(f"it goes together with {method}")


def combinations(arm: ArmCase, topic: Topic) -> Check:
    """No two keys exclude each other in the engine."""
    for part, reason, remedy in _conflicts(arm):
        return topic.at(arm.field(part)).fails(reason, remedy)
    return topic.passes("no two keys exclude each other")


def _conflicts(arm: ArmCase) -> Iterator[tuple[str, str, str]]:
    speculation = arm.arm.speculation
    method, schedule = speculation.method, speculation.num_speculative_tokens_per_batch_size
    if schedule is not None and method in FIXED_LENGTH:
        field = "speculation.num_speculative_tokens_per_batch_size"
        yield field, f"the {method} proposer asserts one length for every step", "leave it out"
    if speculation.disable_padded_drafter_batch and (method is Method.DRAFT_MODEL or speculation.parallel_drafting):
        # SpecDecodeBaseProposer._raise_if_padded_drafter_batch_disabled
        field = "speculation.disable_padded_drafter_batch"
        yield field, "draft models and parallel drafting run in padded batches only", "leave it out"
    if speculation.use_heterogeneous_vocab and speculation.draft_sample_method is DraftSampling.PROBABILISTIC:
        field = "speculation.draft_sample_method"
        yield field, "use_heterogeneous_vocab drafts greedily only", "use greedy, or leave it out"


def _probabilities_ignored(arm: ArmCase) -> str:
    """Why probabilistic drafts would not be what they say; empty where they are."""
    method = arm.arm.speculation.method
    if method not in RUNS_A_MODEL:
        return f"method {method} has no probabilities to draft by"
    if arm.arm.speculation.rejection_sampling is not RejectionSampling.STANDARD:
        return "probabilities of drafts are used by standard rejection sampling only"
    return ""


def _suffix_library(arm: ArmCase, topic: Topic) -> Check:
    runtime = arm.case.runtime
    if runtime is None or runtime.suffix_decoding is None:
        return topic.cannot_say("the runtime does not say whether arctic-inference is installed in it")
    if not runtime.suffix_decoding:
        return topic.fails(
            f"suffix needs arctic-inference, which vLLM {version_of(arm)} here lacks", "install it there"
        )
    return topic.passes("arctic-inference is installed in the runtime")


def _field_of(key: str) -> str:
    """The manifest's name of one of the engine's keys."""
    return {"rejection_sample_method": "rejection_sampling"}.get(key, key)
