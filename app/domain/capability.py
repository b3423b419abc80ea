"""What a worker says of its host: runtimes as they describe themselves, models as their files say.

The web host may have no runtime at all. Form and preflight read these documents; nothing in them is
copied from a table of ours where the installed engine or the model's files can be asked.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.client_range import ClientRange
from app.domain.vocabulary import Sha256


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RuntimeCapability(_Frozen):
    """One engine runtime. ``unavailable`` says why it could not be asked; the lists below are then empty."""

    ref: str
    """As a manifest names it."""
    name: str
    kind: Literal["environment", "container"]
    package: str
    version: str
    digest: Sha256
    device: Literal["cpu", "cuda"]
    python: str
    torch: str
    cuda: str
    """The CUDA that torch was built for; ``none`` on the CPU build."""
    methods: tuple[str, ...] = ()
    """Every value that the installed ``SpeculativeConfig`` takes for ``method``."""
    speculative_keys: dict[str, str] = {}
    """Key of ``--speculative-config`` → its type as the engine declares it."""
    rejection_sample_methods: tuple[str, ...] = ()
    draft_sample_methods: tuple[str, ...] = ()
    serve_flags: tuple[str, ...] = ()
    """Every flag of ``vllm serve``, such as ``--max-model-len``."""
    architectures: tuple[str, ...] = ()
    """Model classes that the engine registers, drafts included."""
    quantization_methods: tuple[str, ...] = ()
    per_request_speculation: bool = False
    """Whether a response can carry the request's own speculation counts."""
    suffix_decoding: bool | None = None
    """Whether the library of method ``suffix`` is installed (the engine lists the method without it, too)."""
    eagle3_architectures: tuple[str, ...] = ()
    """Registered target classes that give EAGLE-3 their hidden states."""
    os: str = "none"
    kernel: str = "none"
    driver: str = "none"
    """The NVIDIA driver; like system and kernel as seen from inside the runtime."""
    not_found: dict[str, str] = {}
    """Fact that this version does not state → where it was looked for; its list above is then empty."""
    unavailable: str | None = None


class ModelFacts(_Frozen):
    """One model directory at one content digest or commit, read from its files without running anything."""

    ref: str
    alias: str | None
    """The local directory's name; null for a snapshot of the hub, which ``ref`` names."""
    bytes: int
    weights_bytes: int
    parameters: int | None
    """From the safetensors headers; null where the weights are in another format."""
    dtype: str | None
    architectures: tuple[str, ...]
    model_type: str | None
    vocab_size: int | None
    max_position_embeddings: int | None
    rope: dict[str, Any] = {}
    """The configuration's rope settings, such as ``rope_theta`` and ``rope_scaling``."""
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    quantization: str = "none"
    eos_token_ids: tuple[int, ...] = ()
    """Of the configuration and the generation configuration together."""
    special_tokens: dict[str, str] = {}
    vocabulary_sha256: Sha256 | None = None
    """Over every (id, token) of the tokenizer, added tokens included; null without a readable tokenizer."""
    vocabulary_tokens: int | None = None
    tokenizer_sha256: Sha256 | None = None
    chat_template_sha256: Sha256 | None = None
    generation_config_sha256: Sha256 | None = None
    adapter_sha256: Sha256 | None = None
    needs_remote_code: bool = False
    """The configuration names Python code of its own (``auto_map``)."""
    is_speculators_format: bool = False
    """A ``speculators`` repository: as a target it would silently switch speculation on."""
    head: dict[str, Any] = {}
    """The configuration's keys that only a draft has, such as ``num_heads`` or ``n_predict``; ``fc`` is the
    shape of the weight ``fc.weight``, which only an EAGLE head has."""
    provenance: dict[str, str] = {}
    """What the model's card states: ``training_data``, ``target_revision``, ``training_cost``, ``licence``."""
    weights_format: str | None = None
    """``safetensors``, ``pickle``, ``gguf`` or ``none``."""
    not_known: dict[str, str] = {}
    """Fact that could not be read → why; its value above then says nothing."""


class HostCapability(_Frozen):
    """The document that a worker publishes."""

    runtimes: tuple[RuntimeCapability, ...]
    models: tuple[ModelFacts, ...]
    hardware: dict[str, Any]
    software: dict[str, Any]
    cores: int
    memory_bytes: int = Field(description="Of one accelerator, or of the host where there is none.")
    client_range: ClientRange | None = None
    """The loads at which the host's client keeps time; null where that was never measured."""
    client_range_void: str = ""
    """Why what was measured no longer holds here; empty where it does."""
