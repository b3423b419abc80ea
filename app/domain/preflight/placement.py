"""Can the models be laid out as stated: over accelerators, in this type of number, with this quantization?"""

from app.domain.capability import ModelFacts, RuntimeCapability
from app.domain.preflight.case import ArmCase, Case, called, missing_draft
from app.domain.preflight.outcome import Check, Topic
from app.domain.preflight.runtime import no_runtime
from app.domain.serving import UNQUANTIZED
from app.domain.vocabulary import Method

VOCABULARY_PADDING = 64
"""``VocabParallelEmbedding`` pads the vocabulary to a multiple of this before it is divided."""

BFLOAT16_CAPABILITY_MIN = 8.0
"""CUDA compute capability from which the engine takes bfloat16."""

UNREAD = "unknown"
"""What the facts of a model say where its quantization could not be read."""

NOT_IN_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})
"""``model_type`` that the engine refuses in float16 as unstable (``_FLOAT16_NOT_SUPPORTED_MODELS``)."""


def tensor_parallel(case: Case, topic: Topic) -> Check:
    """The target divides over ``tensor_parallel_size`` accelerators, and there are as many."""
    size, count = case.manifest.serving.tensor_parallel_size, case.manifest.hardware.count
    if size > count:
        return topic.fails(f"{size} accelerators are asked for, {count} are pinned", f"use at most {count}")
    if size == 1:
        return topic.passes("the model is not divided")
    if case.target is None:
        return topic.cannot_say("the target's files were not read")
    return _divides(topic, case.target, size)


def draft_tensor_parallel(arm: ArmCase, topic: Topic) -> Check | None:
    """The draft is divided as the engine allows, and divides evenly."""
    size, stated = arm.case.manifest.serving.tensor_parallel_size, arm.arm.speculation.draft_tensor_parallel_size
    draft = arm.draft
    if draft is None:
        return missing_draft(arm, topic)
    used = stated or size
    if used not in {1, size}:  # SpeculativeConfig._verify_and_get_draft_tp
        return topic.fails(f"{used} is neither 1 nor the target's {size}", f"use 1 or {size}")
    if used != size and arm.arm.speculation.method is Method.DRAFT_MODEL:
        # DraftModelProposer._raise_if_draft_tp_mismatch
        return topic.fails(f"a draft model runs on as many accelerators as the target, {size}", f"use {size}")
    return topic.passes("the draft is not divided") if used == 1 else _divides(topic, draft, used)


def dtype(case: Case, topic: Topic) -> Check:
    """The device and the target's kind of model work in ``serving.dtype``."""
    stated, target = case.manifest.serving.dtype, case.target
    if target is not None and stated == "float16" and target.model_type in NOT_IN_FLOAT16:
        return topic.fails(f"the engine refuses {target.model_type} in float16", "use bfloat16 or float32")
    if case.device is None:
        return no_runtime(topic)
    if case.device == "cuda" and stated == "bfloat16":
        return _bfloat16(topic, case.host.hardware.get("compute_capability"))
    files = f"; the files are in {target.dtype}" if target is not None and target.dtype else ""
    return topic.passes(f"{case.device} works in {stated}{files}")


def quantization(case: Case, topic: Topic) -> Check:
    """The engine has the format, and it is the one of the target's files."""
    if case.target is None:
        return topic.cannot_say("the target's files were not read")
    return _quantization(topic, case.manifest.serving.quantization, case.target, case.runtime)


def draft_quantization(arm: ArmCase, topic: Topic) -> Check | None:
    """The same of the draft."""
    if arm.draft is None:
        return missing_draft(arm, topic)
    stated = arm.arm.speculation.quantization or UNQUANTIZED
    return _quantization(topic, stated, arm.draft, arm.case.runtime)


def _divides(topic: Topic, model: ModelFacts, size: int) -> Check:
    heads, vocabulary = model.num_attention_heads, model.vocab_size
    if heads is None or vocabulary is None:
        return topic.cannot_say(f"the files of {called(model)} do not state its heads and vocabulary")
    key_heads, padded = model.num_key_value_heads or heads, -(-vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING
    uneven = [
        words
        for words, divides in (
            (f"{heads} attention heads", heads % size == 0),
            (f"{key_heads} key and value heads", max(key_heads, size) % min(key_heads, size) == 0),
            (f"a vocabulary of {padded:,}", padded % size == 0),
        )
        if not divides
    ]
    if uneven:
        return topic.fails(
            f"{called(model)} has {' and '.join(uneven)}, which {size} does not divide", "use another size"
        )
    return topic.passes(f"{heads} and {key_heads} heads and a vocabulary of {padded:,} divide by {size}")


def _bfloat16(topic: Topic, capability: object) -> Check:
    try:
        found = float(str(capability))
    except ValueError:
        return topic.cannot_say("the host does not state the accelerator's compute capability")
    if found < BFLOAT16_CAPABILITY_MIN:
        return topic.fails(f"compute capability {found} has no bfloat16", "use float16 or float32")
    return topic.passes(f"compute capability {found} works in bfloat16")


def _quantization(topic: Topic, stated: str, model: ModelFacts, runtime: RuntimeCapability | None) -> Check:
    files = model.quantization
    if files == UNREAD:
        return topic.cannot_say(f"the files of {called(model)} do not say clearly whether they are quantized")
    if UNQUANTIZED in {stated, files} and stated != files:
        return topic.fails(f"the files of {called(model)} say {files}, the manifest {stated}", f"write {files}")
    if stated == UNQUANTIZED:
        return topic.passes("not quantized, as the files say")
    return _quantized(topic, stated, model, runtime)


def _quantized(topic: Topic, stated: str, model: ModelFacts, runtime: RuntimeCapability | None) -> Check:
    files = model.quantization
    if runtime is None or not runtime.quantization_methods:
        return no_runtime(topic)
    if stated not in runtime.quantization_methods:
        return topic.fails(f"vLLM {runtime.version} has no {stated}", "use another checkpoint or runtime")
    if not stated.startswith(files):  # a kernel's name begins with its format's: awq and awq_marlin
        return topic.fails(f"the files of {called(model)} are {files}, not {stated}", f"write {files} or its kernel")
    return topic.passes(f"the engine has {stated}, and the files are {files}")
