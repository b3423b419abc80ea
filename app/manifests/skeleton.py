"""A new manifest to fill in: what is known stands in it, what is not is a placeholder that validation refuses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.manifest import FORMAT
from app.domain.proposer import METHODS_IN_TARGET, METHODS_WITH_DRAFT
from app.domain.references import NO_DRAFT
from app.domain.vocabulary import Method, Regime

_MODEL: Final = "<repository@commit of 40 hex digits, or local:alias@sha256:digest>"
_HARDWARE: Final = {
    "accelerator": "<accelerator model>",
    "count": "<how many>",
    "topology": "<how they are joined, such as single GPU>",
}
_SOFTWARE: Final = {
    "driver": "<driver version, or the word none>",
    "cuda": "<CUDA version, or the word none>",
    "os": "<distribution>",
    "kernel": "<kernel release>",
}
_WORKLOADS: Final = ({"name": "tasks", "trace": "<sha256 of the trace: verdraft workload show FILE>"},)
_LOADS: Final = (
    {"name": "latency", "regime": str(Regime.LATENCY), "rate_rps": "<requests/s of the trace's load latency>"},
    {"name": "serving", "regime": str(Regime.SERVING), "rate_rps": "<requests/s of the trace's load serving>"},
)
COMMENTS: Final[Mapping[str, str]] = {
    "format": "One experiment, stated completely. Every field: docs/manifest.md",
    "target_model": "Pinned by commit, or by the digest of an alias in the service's model directory.",
    "runtime": "The engine and the digest of everything installed with it, as verdraft runtime list prints it.",
    "speculation": "The proposer, in vLLM's words. A list of num_speculative_tokens becomes one arm for each k.",
    "serving": "The same in every arm, and passed explicitly.",
    "sampling": "Temperature 0 is greedy: outputs are then compared token by token.",
    "hardware": "A worker refuses a manifest that names another host: GET /api/v1/capabilities",
    "workloads": "Frozen traces, uploaded beforehand: verdraft workload upload FILE",
    "loads": "Load points of the traces. A recommendation needs both regimes, latency and serving.",
    "blocks": "Every arm once in each block. Below 5 every verdict is exploratory.",
    "slo": "When a request counts for goodput.",
    "margins": "delta is the smallest relative effect worth acting on.",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What a new manifest may be filled with; empty means unknown."""

    name: str = "my-experiment"
    method: Method = Method.NGRAM
    k: Sequence[int] = (4,)
    runtime: str = ""
    target: str = ""
    draft: str = ""
    blocks: int = 5
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    software: Mapping[str, Any] = field(default_factory=dict[str, Any])
    workloads: Sequence[Mapping[str, Any]] = ()
    loads: Sequence[Mapping[str, Any]] = ()


def skeleton(known: Known) -> dict[str, Any]:
    """The manifest as a document in the single-arm form, in the order in which people read it."""
    return {
        "format": FORMAT,
        "name": known.name,
        "target_model": known.target or _MODEL,
        "target_tokenizer": known.target or _MODEL,
        "draft_or_speculator": _draft(known),
        "runtime": known.runtime or "<vllm version digest, as verdraft runtime list prints it>",
        "speculation": {
            "method": str(known.method),
            "num_speculative_tokens": known.k[0] if len(known.k) == 1 else list(known.k),
            "rejection_sampling": "standard",
        },
        "serving": {
            "dtype": "bfloat16",
            "quantization": "none",
            "tensor_parallel_size": 1,
            "max_model_len": 1024,
            "max_num_seqs": 16,
            "prefix_caching": False,
            "enforce_eager": False,
        },
        "sampling": {"temperature": 0},
        "hardware": dict(known.hardware or _HARDWARE),
        "software": dict(known.software or _SOFTWARE),
        "workloads": list(known.workloads or _WORKLOADS),
        "loads": list(known.loads or _LOADS),
        "blocks": known.blocks,
        "schedule_seed": 1,
        "slo": {"ttft_ms": 500, "tpot_ms": 50, "e2e_ms": 5000},
        "margins": {"delta": 0.05, "confidence": 0.95},
        "family": {"comparisons": "all"},
    }


def commented(document: Mapping[str, Any], comments: Mapping[str, str] = COMMENTS) -> str:
    """The document as YAML with a comment above each field that has one."""
    return "\n".join(_lines(document, comments)) + "\n"


def _lines(document: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    for key, value in document.items():
        if key in comments:
            yield from (f"# {' '.join(line.split())}" for line in comments[key].split("\n"))
        if isinstance(value, dict):
            yield f"{key}:"
            yield from (f"  {name}: {_flow(item)}" for name, item in value.items())
        elif isinstance(value, list):
            yield f"{key}:"
            yield from (f"  - {_flow(item)}" for item in value)
        else:
            yield f"{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    """A value on one line; JSON is YAML, and its strings are always quoted."""
    return json.dumps(value, ensure_ascii=False)


def _draft(known: Known) -> str:
    if known.draft or known.method not in METHODS_WITH_DRAFT | METHODS_IN_TARGET:
        return known.draft or NO_DRAFT
    return _MODEL if known.method in METHODS_WITH_DRAFT else NO_DRAFT
