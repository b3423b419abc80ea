"""How a proposer is written in a manifest and how vLLM is told of it.

The keys are vLLM's own (``--speculative-config``); the method is always stated, because
an omitted method is inferred by the engine from the model's path.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.domain.vocabulary import Method, RejectionSampling

METHODS_WITH_DRAFT = frozenset({Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.MEDUSA})
K_MAX = 64

PositiveK = Annotated[int, Field(ge=1, le=K_MAX)]


class Speculation(BaseModel):
    """The ``speculation`` field of spec M1; keys beyond ``method`` are vLLM's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Method
    num_speculative_tokens: PositiveK | None = None
    rejection_sampling: RejectionSampling = RejectionSampling.STANDARD
    prompt_lookup_min: PositiveK | None = None
    prompt_lookup_max: PositiveK | None = None
    suffix_decoding_max_tree_depth: PositiveK | None = None
    suffix_decoding_max_cached_requests: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _method_decides_keys(self) -> "Speculation":
        if self.method is Method.TARGET_ONLY:
            extra = self.method_keys()
            if self.num_speculative_tokens is not None or extra:
                raise ValueError("target_only takes num_speculative_tokens: null and no method keys; remove them")
            return self
        if self.num_speculative_tokens is None:
            raise ValueError(f"{self.method} needs num_speculative_tokens, from 1 to {K_MAX}")
        self._refuse_foreign_keys()
        return self

    def _refuse_foreign_keys(self) -> None:
        prefix = {Method.NGRAM: "prompt_lookup_", Method.SUFFIX: "suffix_decoding_"}.get(self.method)
        foreign = [key for key in self.method_keys() if prefix is None or not key.startswith(prefix)]
        if foreign:
            raise ValueError(f"{', '.join(foreign)} does not belong to method {self.method}; remove it")

    def method_keys(self) -> dict[str, int]:
        """The set keys that belong to one method only."""
        names = (
            "prompt_lookup_min",
            "prompt_lookup_max",
            "suffix_decoding_max_tree_depth",
            "suffix_decoding_max_cached_requests",
        )
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def speculative_config(self, draft_path: str | None) -> dict[str, Any] | None:
        """The value of ``--speculative-config``; ``None`` for the baseline, where the flag is absent.

        ``draft_path`` is the resolved directory of the draft, given exactly for methods that have one.
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
