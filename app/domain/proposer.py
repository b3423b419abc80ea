"""How a proposer is written in a manifest and how vLLM is told of it.

The keys are vLLM's own (``--speculative-config``); the method is always stated, because
an omitted method is inferred by the engine from the model's path.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from app.domain.refusals import Flaw, refusal, refuse
from app.domain.vocabulary import DraftSampling, Method, RejectionSampling
from app.domain.written import Share, none_word, positive_zero

_M = Method
METHODS_WITH_DRAFT: Final = frozenset({_M.DRAFT_MODEL, _M.EAGLE, _M.EAGLE3, _M.DFLASH, _M.MEDUSA, _M.MLP_SPECULATOR})
"""Methods that need a draft model or a head of their own."""
METHODS_IN_TARGET: Final = frozenset({_M.MTP, _M.DSPARK})
"""Methods whose head may be in the target's own checkpoint, or be named as a draft."""
METHODS_WITH_MODEL: Final = METHODS_WITH_DRAFT | METHODS_IN_TARGET
METHODS_OFFERED: Final = tuple(m for m in Method if m not in {_M.TARGET_ONLY, _M.CUSTOM_CLASS})
"""What a manifest may ask for; whether a runtime and a target can do it is preflight's question."""
K_MAX: Final = 64
RANGES_MAX: Final = 64

_NGRAM: Final = frozenset({_M.NGRAM, _M.NGRAM_GPU})
_SUFFIX: Final = frozenset({_M.SUFFIX})
_ON_HIDDEN_STATES: Final = frozenset({_M.EAGLE, _M.EAGLE3, _M.MTP, _M.DFLASH, _M.DSPARK})
_READERS: Final[Mapping[str, frozenset[Method]]] = {
    "draft_sample_method": METHODS_WITH_MODEL,
    "prompt_lookup_min": _NGRAM,
    "prompt_lookup_max": _NGRAM,
    "suffix_decoding_max_tree_depth": _SUFFIX,
    "suffix_decoding_max_cached_requests": _SUFFIX,
    "suffix_decoding_max_spec_factor": _SUFFIX,
    "suffix_decoding_min_token_prob": _SUFFIX,
    "use_heterogeneous_vocab": frozenset({_M.DRAFT_MODEL}),
    "parallel_drafting": frozenset({_M.DRAFT_MODEL, _M.EAGLE, _M.EAGLE3}),
    "disable_padded_drafter_batch": METHODS_WITH_MODEL,
    "disable_eagle_block_drop": _ON_HIDDEN_STATES,
    "use_local_argmax_reduction": METHODS_WITH_MODEL,
    "draft_tensor_parallel_size": METHODS_WITH_MODEL,
    "quantization": METHODS_WITH_MODEL,
    "max_model_len": METHODS_WITH_MODEL,
    "enforce_eager": METHODS_WITH_MODEL,
    "attention_backend": METHODS_WITH_MODEL,
    "moe_backend": METHODS_WITH_MODEL,
    "kv_cache_dtype": METHODS_WITH_MODEL,
    "draft_lm_head_quantization": METHODS_WITH_MODEL,
    "index_share_for_mtp_iteration": frozenset({_M.MTP}),
    "enable_adaptive_verification": frozenset({_M.DSPARK}),
    "dspark_draft_topk": frozenset({_M.DSPARK}),
}
"""Key → the methods that read it; any other method would ignore it in silence."""
_KEYS: Final = (
    *_READERS,
    "num_speculative_tokens_per_batch_size",
    "synthetic_acceptance_rates",
    "synthetic_acceptance_length",
)


def keys_of(method: Method) -> tuple[str, ...]:
    """The fields of ``Speculation`` beside ``method`` that a proposer of this method may state; none for target-only.

    A key that only synthetic acceptance reads is among them: that is asked of ``rejection_sampling``.
    """
    if method is _M.TARGET_ONLY:
        return ()
    own = (key for key in _KEYS if method in _READERS.get(key, {method}))
    return ("num_speculative_tokens", "rejection_sampling", *own)


PositiveK = Annotated[int, Field(ge=1, le=K_MAX)]
SpecFactor = Annotated[float, Field(ge=0, le=K_MAX), AfterValidator(positive_zero)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}$")]
"""One of the engine's own words, such as ``fp8``; the runtime is asked whether it knows it."""
BatchRange = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0, le=K_MAX)]]
"""First and last batch size, both included, and the k drafted there."""


_OLD_MTP = "_mtp"
"""How the names end that vLLM had for each model family before ``mtp`` took their place."""


def _known_method(value: Any) -> Any:
    offered = ", ".join(METHODS_OFFERED)
    if value == _M.CUSTOM_CLASS:
        message = "custom_class loads a Python class by its name, and the service runs no code from a manifest"
        raise refusal(message, f"use one of {offered}")
    if value == "other":
        raise refusal("other is a placeholder, not a method", f"write vLLM's own name of the method: {offered}")
    if isinstance(value, str) and value.endswith(_OLD_MTP):
        raise refusal(f"{value[:60]!r} is an old name, which vLLM itself replaces by mtp", "write mtp")
    if isinstance(value, str) and value not in set(Method):
        raise refusal(f"{value[:60]!r} is no method of vLLM", f"use target_only or one of {offered}")
    return value


class Speculation(BaseModel):
    """The ``speculation`` field of spec M1; keys beyond the first three are vLLM's, with its defaults where absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Annotated[Method, BeforeValidator(_known_method)]
    num_speculative_tokens: Annotated[PositiveK | None, BeforeValidator(none_word)] = None
    rejection_sampling: RejectionSampling = RejectionSampling.STANDARD
    draft_sample_method: DraftSampling | None = None
    num_speculative_tokens_per_batch_size: (
        Annotated[tuple[BatchRange, ...], Field(min_length=1, max_length=RANGES_MAX)] | None
    ) = None
    prompt_lookup_min: PositiveK | None = None
    prompt_lookup_max: PositiveK | None = None
    suffix_decoding_max_tree_depth: PositiveK | None = None
    suffix_decoding_max_cached_requests: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    suffix_decoding_max_spec_factor: SpecFactor | None = None
    suffix_decoding_min_token_prob: Share | None = None
    use_heterogeneous_vocab: bool | None = None
    parallel_drafting: bool | None = None
    disable_padded_drafter_batch: bool | None = None
    disable_eagle_block_drop: bool | None = None
    use_local_argmax_reduction: bool | None = None
    draft_tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    quantization: Word | None = None
    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)] | None = None
    enforce_eager: bool | None = None
    attention_backend: Word | None = None
    moe_backend: Word | None = None
    kv_cache_dtype: Word | None = None
    draft_lm_head_quantization: Word | None = None
    index_share_for_mtp_iteration: bool | None = None
    enable_adaptive_verification: bool | None = None
    dspark_draft_topk: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    synthetic_acceptance_rates: Annotated[tuple[Share, ...], Field(min_length=1, max_length=K_MAX)] | None = None
    synthetic_acceptance_length: Annotated[float, Field(ge=1, le=K_MAX + 1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _none_for_target_only(cls, value: Any) -> Any:
        """In a baseline written by hand every key but the method may say ``none``."""
        if isinstance(value, dict) and value.get("method") == _M.TARGET_ONLY:
            return {key: item for key, item in value.items() if item != "none"}
        return value

    @model_validator(mode="after")
    def _keys_fit_method(self) -> "Speculation":
        refuse(self, _baseline_flaws(self) if self.method is _M.TARGET_ONLY else _proposer_flaws(self))
        return self

    def method_keys(self) -> dict[str, Any]:
        """The keys of vLLM that are set, beyond method, k and rejection sampling."""
        stated = self.model_dump(mode="json", exclude_none=True, include=set(_KEYS))
        return {key: stated[key] for key in _KEYS if key in stated}

    def speculative_config(self, draft_path: str | None) -> dict[str, Any] | None:
        """The value of ``--speculative-config``; ``None`` for the baseline, where the flag is absent.

        ``draft_path`` is the resolved directory of the draft, given exactly for arms that name one.
        """
        if self.method is Method.TARGET_ONLY:
            return None
        config: dict[str, Any] = {
            "method": str(self.method),
            "num_speculative_tokens": self.num_speculative_tokens,
            "rejection_sample_method": str(self.rejection_sampling),
            **self.method_keys(),
        }
        return config if draft_path is None else {**config, "model": draft_path}


def _baseline_flaws(speculation: Speculation) -> Iterator[Flaw]:
    message, remedy = "target_only speculates not at all, so this key has no meaning", "remove it"
    if speculation.num_speculative_tokens is not None:
        yield Flaw(("num_speculative_tokens",), message, remedy)
    if speculation.rejection_sampling is not RejectionSampling.STANDARD:
        yield Flaw(("rejection_sampling",), message, remedy)
    for key in speculation.method_keys():
        yield Flaw((key,), message, remedy)


def _proposer_flaws(speculation: Speculation) -> Iterator[Flaw]:
    method = speculation.method
    if speculation.num_speculative_tokens is None:
        remedy = f"add it, from 1 to {K_MAX}; with ranges by batch size it is their largest"
        yield Flaw(("num_speculative_tokens",), f"{method} needs a number of speculative tokens", remedy)
    for key in speculation.method_keys():
        if method not in _READERS.get(key, {method}):
            readers = ", ".join(sorted(_READERS[key]))
            yield Flaw((key,), f"{method} would ignore this key", f"remove it; it belongs to {readers}")
    shortest, longest = speculation.prompt_lookup_min, speculation.prompt_lookup_max
    if shortest is not None and longest is not None and shortest > longest:
        message = f"the shortest match, {shortest}, is longer than prompt_lookup_max, {longest}"
        yield Flaw(("prompt_lookup_min",), message, "let it be at most prompt_lookup_max")
    yield from _schedule_flaws(speculation)
    yield from _synthetic_flaws(speculation)


def _schedule_flaws(speculation: Speculation) -> Iterator[Flaw]:
    """What the engine would reorder, fill in or cut in silence."""
    field, due, k_max = "num_speculative_tokens_per_batch_size", 1, speculation.num_speculative_tokens or K_MAX
    for index, (first, last, k) in enumerate(speculation.num_speculative_tokens_per_batch_size or ()):
        if first != due or last < first:
            message = f"the range {first} to {last} does not follow on batch size {due - 1}"
            yield Flaw((field, index), message, "let ranges begin at 1, rise, and follow each other without a gap")
        if k > k_max:
            message = f"k = {k} is above num_speculative_tokens, {k_max}, and would be cut to it"
            yield Flaw((field, index), message, "let num_speculative_tokens be the largest k")
        due = last + 1


def _synthetic_flaws(speculation: Speculation) -> Iterator[Flaw]:
    rates, length = speculation.synthetic_acceptance_rates, speculation.synthetic_acceptance_length
    if speculation.rejection_sampling is not RejectionSampling.SYNTHETIC:
        for key, value in (("synthetic_acceptance_rates", rates), ("synthetic_acceptance_length", length)):
            if value is not None:
                yield Flaw((key,), "only synthetic rejection sampling reads this key", "remove it")
        return
    if (rates is None) == (length is None):
        message = "synthetic needs exactly one of synthetic_acceptance_rates and synthetic_acceptance_length"
        yield Flaw(("rejection_sampling",), message, "state one of them")
    k = speculation.num_speculative_tokens
    if rates is not None and (len(rates) != k or list(rates) != sorted(rates, reverse=True)):
        message = f"{len(rates)} rates for k = {k}, which must not rise"
        yield Flaw(("synthetic_acceptance_rates",), message, "give one unconditional rate per draft position, falling")
    if length is not None and k is not None and length > k + 1:
        message = f"{length:g} tokens per step are more than k + 1 = {k + 1}"
        yield Flaw(("synthetic_acceptance_length",), message, "lower it, or raise num_speculative_tokens")
