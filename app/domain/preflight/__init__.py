"""Named checks of a manifest against what a host can do, before any accelerator time is spent (spec P1 to P5).

The same list is run for the form, the API and the CLI, and again in the worker. A check that lacks a
fact says so; it neither passes nor fails.
"""

from collections.abc import Iterable, Iterator, Mapping

from app.domain.capability import HostCapability
from app.domain.errors import FieldProblem
from app.domain.manifest import Manifest
from app.domain.preflight import (
    architecture,
    client,
    context,
    heads,
    memory,
    pins,
    placement,
    runtime,
    sampling,
    speculation,
    tokens,
)
from app.domain.preflight.case import NO_ANSWERS, NO_REQUESTED, NOWHERE, ArmCase, ArmRule, Case, Rule
from app.domain.preflight.outcome import Check, PreflightOutcome

__all__ = [
    "ARM_RULES",
    "RULES",
    "SIZE",
    "TRACES",
    "Check",
    "PreflightOutcome",
    "names",
    "preflight",
    "problems_of",
    "refusing",
]

TRACES = "traces"
"""The check of each stored trace against the manifest; it needs the trace, so that the service makes it."""
SIZE = "size"
"""Whether the experiment is of a size that is taken; as the cost estimate, the service makes it."""

RULES = (
    Rule("runtime", "runtime", runtime.introspected),
    Rule("security floor", "runtime", runtime.security_floor),
    Rule("engine flags", "runtime", runtime.serve_flags),
    Rule("hardware", "hardware", runtime.hardware),
    Rule("software", "software", runtime.software),
    Rule("target", "target_model", architecture.target_known),
    Rule("target format", "target_model", architecture.target_format),
    Rule("target architecture", "target_model", architecture.target_architecture),
    Rule("target code", "target_model", architecture.target_remote_code),
    Rule("target tokenizer", "target_tokenizer", tokens.target_tokenizer),
    Rule("pinned files", "files", pins.files),
    Rule("context length", "serving.max_model_len", context.context_length),
    Rule("dtype", "serving.dtype", placement.dtype),
    Rule("quantization", "serving.quantization", placement.quantization),
    Rule("tensor parallel", "serving.tensor_parallel_size", placement.tensor_parallel),
    Rule("sampling modes", "sampling", sampling.sampling_modes),
    Rule("client range", "loads", client.client_range),
)
"""Checks of the whole experiment, in the order in which they are shown."""

_MEMORY = ArmRule("memory", "draft_or_speculator", memory.memory)
ARM_RULES = (
    ArmRule("method", "speculation.method", speculation.method_known),
    ArmRule("policy", "speculation.method", speculation.method_allowed),
    ArmRule("device", "speculation.method", speculation.device_support),
    ArmRule("keys", "speculation", speculation.keys_known),
    ArmRule("key combinations", "speculation", speculation.combinations),
    ArmRule("rejection sampling", "speculation.rejection_sampling", speculation.rejection_sampling),
    ArmRule("draft sampling", "speculation.draft_sample_method", speculation.draft_sampling),
    ArmRule("async scheduling", "speculation.method", speculation.async_scheduling),
    ArmRule("draft", "draft_or_speculator", architecture.draft_needed),
    ArmRule("dedicated method", "speculation.method", architecture.dedicated),
    ArmRule("stated method", "speculation.method", architecture.stated_method_kept),
    ArmRule("draft architecture", "draft_or_speculator", architecture.draft_architecture),
    ArmRule("draft code", "draft_or_speculator", architecture.draft_remote_code),
    ArmRule("draft revision", "draft_or_speculator", pins.draft_revision),
    ArmRule("hidden size", "draft_or_speculator", heads.hidden_size),
    ArmRule("inner layers", "draft_or_speculator", heads.inner_layers),
    ArmRule("MTP module", "speculation.method", heads.mtp_module),
    ArmRule("draft length", "speculation.num_speculative_tokens", heads.draft_length),
    ArmRule("parallel drafting", "speculation.parallel_drafting", heads.parallel_drafting),
    ArmRule("vocabulary size", "draft_or_speculator", tokens.vocabulary_size),
    ArmRule("tokenizer", "draft_or_speculator", tokens.tokenizer_equality),
    ArmRule("special tokens", "draft_or_speculator", tokens.special_tokens),
    ArmRule("stop tokens", "draft_or_speculator", tokens.stop_tokens),
    ArmRule("chat template", "draft_or_speculator", tokens.chat_template),
    ArmRule("draft context", "draft_or_speculator", context.draft_context),
    ArmRule("rope", "draft_or_speculator", context.rope),
    ArmRule("draft tensor parallel", "speculation.draft_tensor_parallel_size", placement.draft_tensor_parallel),
    ArmRule("draft quantization", "speculation.quantization", placement.draft_quantization),
    _MEMORY,
)
"""Checks of each arm but target-only, which has only its memory to be checked."""


def preflight(
    manifest: Manifest,
    host: HostCapability | None,
    requested: Mapping[str, frozenset[str]] = NO_REQUESTED,
    answers: Mapping[str, Mapping[str, float]] = NO_ANSWERS,
) -> tuple[Check, ...]:
    """Every check that applies, those of the whole experiment first.

    ``host`` is null where no worker has published the runtime: what only a host can tell is then not checkable.
    ``requested`` gives, by workload, the names of the sampling parameters that its requests carry; ``answers``, by
    workload and load, how many tokens an answer has at most, on average.
    """
    case = Case(manifest, host or NOWHERE, requested, answers)
    return (*_of_experiment(case), *_of_arms(case))


def refusing(checks: Iterable[Check]) -> list[Check]:
    """The checks that refuse the manifest."""
    return [check for check in checks if check.refuses]


def problems_of(checks: Iterable[Check]) -> list[FieldProblem]:
    """The same as problems of its fields."""
    return [FieldProblem(c.field, f"{c.name}: {c.reason}", c.remedy) for c in refusing(checks)]


def names() -> tuple[str, ...]:
    """The name of every check."""
    return (*(rule.name for rule in (*RULES, *ARM_RULES)), TRACES, SIZE)


def _of_experiment(case: Case) -> Iterator[Check]:
    yield from (check for rule in RULES if (check := rule.of(case)) is not None)


def _of_arms(case: Case) -> Iterator[Check]:
    for index, arm in enumerate(case.manifest.arms):
        rules = ARM_RULES if arm.speculates else (_MEMORY,)
        facts = ArmCase(case, index, arm)
        yield from (check for rule in rules if (check := rule.of(facts)) is not None)
