"""The rows of the matrix: each method of vLLM and each of its variants on the small models.

A case is written as a manifest would have it. A name that the engine lists and no case covers shows as such.
"""

from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from app.domain.canonical import canonical_json, digest
from app.domain.engine_version import below_floor
from app.domain.manifest import Hardware, Manifest, Software, parse_manifest
from app.domain.vocabulary import BASELINE_ARM
from worker.matrix import models

ARM = "proposer"
NO_DRAFT = "none"
SERVING: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 512,
    "max_num_seqs": 8,
    "prefix_caching": False,
    "enforce_eager": True,
    "kv_cache_space_gib": 1,
}
CUSTOM_CLASS = "vllm.v1.spec_decode.ngram_proposer.NgramProposer"
"""A class of the engine itself stands for anybody's, so that nothing has to be put into the runtime."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row. ``speculation`` is as in a manifest; ``raw`` is what the engine is told where no manifest can say it."""

    name: str
    method: str
    speculation: dict[str, Any]
    draft: str | None = None
    target: str = models.TARGET
    purpose: str = "verdict"
    raw: dict[str, Any] = field(default_factory=dict[str, Any])
    """Keys of ``--speculative-config`` that a manifest refuses by policy; empty where the manifest says it all."""

    @property
    def is_policy(self) -> bool:
        """Whether no manifest can ask for it, although the engine may serve it."""
        return bool(self.raw)

    def digest(self, references: dict[str, str]) -> str:
        """What the engine's outcome depends on beside the runtime. ``references`` gives each alias its content."""
        draft = references.get(self.draft or "", NO_DRAFT)
        told: list[JsonValue] = [references[self.target], draft, self.speculation, self.purpose, self.raw, SERVING]
        return digest(canonical_json(told))


def _plain(name: str, k: int = 4, draft: str | None = None, **keys: Any) -> Case:
    """A case by its method and keys; ``name`` is the method, or method and variant with a comma."""
    method = name.partition(",")[0]
    return Case(name, method, {"method": method, "num_speculative_tokens": k, **keys}, draft)


def _on(target: str, case: Case) -> Case:
    return Case(case.name, case.method, case.speculation, case.draft, target)


BASELINES = tuple(
    Case(f"target_only, {target}" if target != models.TARGET else "target_only", "target_only",
         {"method": "target_only"}, target=target)
    for target in (models.TARGET, models.UNKNOWN_TARGET, models.MTP_TARGET)
)  # fmt: skip
"""What the others are compared with, each on its target."""

_LOOKUP: dict[str, Any] = {"prompt_lookup_min": 2, "prompt_lookup_max": 5}
CASES = (
    *BASELINES,
    _plain("ngram", **_LOOKUP),
    _plain("ngram_gpu", **_LOOKUP),
    _plain("suffix", 8, suffix_decoding_max_cached_requests=0),
    _plain("draft_model", draft=models.DRAFT),
    _plain("draft_model, probabilistic drafts", draft=models.DRAFT, draft_sample_method="probabilistic"),
    _plain("draft_model, k by batch size", draft=models.DRAFT,
           num_speculative_tokens_per_batch_size=[[1, 2, 4], [3, 8, 1]]),
    _plain("draft_model, block rejection", draft=models.DRAFT, rejection_sampling="block"),
    _plain("draft_model, more tokens than the target", draft=models.WIDE_DRAFT),
    _plain("draft_model, two vocabularies", draft=models.WIDE_DRAFT, use_heterogeneous_vocab=True),
    _on(models.UNKNOWN_TARGET, _plain("draft_model, two vocabularies with an unknown token",
                                      draft=models.WIDE_UNKNOWN_DRAFT, use_heterogeneous_vocab=True)),
    _plain("draft_model, parallel drafting without a mask token", draft=models.DRAFT, parallel_drafting=True),
    _plain("draft_model, parallel drafting with a mask token", draft=models.MASKED_DRAFT, parallel_drafting=True),
    Case("draft_model, synthetic acceptance", "draft_model",
         {"method": "draft_model", "num_speculative_tokens": 4, "rejection_sampling": "synthetic",
          "synthetic_acceptance_length": 2.5}, models.DRAFT, purpose="overhead_profiling"),
    _plain("eagle", 3, draft="untrained-eagle"),
    _plain("eagle3", 3, draft="untrained-eagle3"),
    _plain("eagle3, inner layers not stated", 3, draft="untrained-eagle3-open"),
    _plain("mtp, target without a module", 1),
    _on(models.MTP_TARGET, _plain("mtp, target with a module", 1)),
    _plain("medusa", 3, draft="untrained-medusa"),
    _plain("mlp_speculator", 3, draft="untrained-mlp"),
    _plain("dflash, Llama draft", 3, draft=models.DRAFT),
    _plain("dflash", 3, draft="untrained-dflash"),
    _plain("dspark", 3, draft=models.DRAFT),
    _plain("extract_hidden_states", 1),
    Case("custom_class", "custom_class", {"method": "custom_class", "num_speculative_tokens": 3},
         raw={"method": "custom_class", "num_speculative_tokens": 3, "model": CUSTOM_CLASS}),
)  # fmt: skip


def deprecated(method: str) -> Case:
    """A row for one of the engine's old names of ``mtp``, which it replaces in silence but for a warning."""
    raw = {"method": method, "num_speculative_tokens": 1}
    return Case(method, method, {**raw}, target=models.MTP_TARGET, raw=raw)


def manifest_of(
    case: Case, references: dict[str, str], *, runtime: str, hardware: Hardware, software: Software
) -> Manifest:
    """The case as an experiment of this host. Raises ``ManifestRefused`` where no manifest can say it."""
    arm = {
        "name": ARM,
        "draft_or_speculator": references.get(case.draft or "", NO_DRAFT),
        "speculation": case.speculation,
    }
    baseline = {"name": BASELINE_ARM, "speculation": {"method": "target_only"}}
    ngram = {"name": ARM, "speculation": {"method": "ngram", "num_speculative_tokens": 4}}
    document: dict[str, Any] = {
        "name": "method-matrix",
        "purpose": case.purpose,
        "target_model": references[case.target],
        "target_tokenizer": references[case.target],
        "runtime": runtime,
        "serving": SERVING,
        "sampling": {"temperature": 0},
        "hardware": hardware.model_dump(),
        "software": software.model_dump(),
        "arms": [baseline, ngram if case.method == "target_only" else arm],
        "workloads": [{"name": "matrix", "trace": "0" * 64}],
        "loads": [{"name": "low", "regime": "latency", "rate_rps": 1.0}],
        "blocks": 1,
        "schedule_seed": 1,
        "slo": {"ttft_ms": 1000, "tpot_ms": 1000, "e2e_ms": 10000},
    }
    if below_floor(runtime.split()[1]):
        document["engine_below_floor"] = "the method matrix compares engines"
    return parse_manifest(document)
