"""The command line of ``vllm serve`` as far as this product uses it; what vLLM does not know, it refuses."""

import argparse
import json
import os
from typing import Any

SWITCHES = (
    "enforce-eager",
    "enable-prefix-caching",
    "enable-chunked-prefill",
    "async-scheduling",
    "enable-per-request-metrics",
    "enable-prompt-tokens-details",
    "enable-server-load-tracking",
    "enable-log-requests",
    "disable-uvicorn-access-log",
    "disable-log-stats",
    "trust-remote-code",
    "kv-cache-metrics",
)
TEXTS = (
    "dtype",
    "revision",
    "tokenizer",
    "generation-config",
    "load-format",
    "kv-cache-dtype",
    "attention-backend",
    "custom-histogram-buckets",
    "compilation-config",
    "logprobs-mode",
)
NUMBERS = (
    "seed",
    "tensor-parallel-size",
    "max-num-batched-tokens",
    "block-size",
    "num-gpu-blocks-override",
    "gpu-memory-utilization",
    "kv-cache-memory-bytes",
    "kv-cache-metrics-sample",
    "uvicorn-log-level",
)


VERSION = os.environ.get("FAKE_VLLM_VERSION", "0.32.0")
WITHOUT_REQUEST_COUNTS = ("0.26.0", "0.27.0")
"""Versions whose responses carry no speculation counts, and which refuse the flag that asks for them."""


def parser() -> argparse.ArgumentParser:
    """Errors print vLLM's form (``vllm serve: error: …``) and exit with 2."""
    root = argparse.ArgumentParser(prog="vllm")
    root.add_argument("-v", "--version", action="version", version=VERSION)
    serve = root.add_subparsers(dest="subparser", required=True).add_parser("serve", allow_abbrev=False)
    serve.add_argument("model_tag")
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--uds")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--max-model-len", type=int, default=1024)
    serve.add_argument("--max-num-seqs", type=int, default=128)
    serve.add_argument("--speculative-config", type=_json_object)
    if VERSION not in WITHOUT_REQUEST_COUNTS:
        serve.add_argument("--per-request-spec-decode-metrics", choices=("none", "summary", "detailed"))
    serve.set_defaults(per_request_spec_decode_metrics="none")
    for name in SWITCHES:
        serve.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    for name in TEXTS + NUMBERS:
        serve.add_argument(f"--{name}")
    return root


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"Value {text} is not a JSON object.")
    return value


def non_default(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given, as vLLM logs it."""
    defaults = parser().parse_args(["serve", ""])
    given = {k: v for k, v in vars(arguments).items() if v != getattr(defaults, k) and k != "subparser"}
    return {**given, "model": arguments.model_tag}
