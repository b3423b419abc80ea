"""Keys that people try in a manifest and that are refused on purpose, each with what to do instead.

A manifest lists what it may set; these are named so that the refusal can say why (method C3).
Dashes and capitals do not matter: ``--Worker-Cls`` is ``worker_cls``.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Refusal(NamedTuple):
    """Why a key is refused, and what to do instead."""

    message: str
    remedy: str


_NOT_LISTED: Final = "and is not on the allowlist"
_CODE: Final = Refusal(
    f"this engine argument loads code of its own into the engine, {_NOT_LISTED}",
    "remove it; what runs in the engine is decided by the runtime's digest alone",
)
_ADDRESS: Final = Refusal(
    f"this engine argument decides where the engine listens, {_NOT_LISTED}",
    "remove it; the worker gives each server a private socket",
)
_ACCESS: Final = Refusal(
    f"this engine argument is about access, {_NOT_LISTED}",
    "remove it; no client but the replay can reach the server, and a manifest is no place for a secret",
)
_FILES: Final = Refusal(
    f"this engine argument reads or writes paths or addresses, {_NOT_LISTED}",
    "remove it; models are named by digest, and nothing else is read",
)
_EXPORT: Final = Refusal(
    f"this engine argument sends data out of the engine, {_NOT_LISTED}",
    "remove it; the worker records what is needed",
)
_MANAGED: Final = Refusal(
    f"this engine argument is set by the worker, the same for every arm, {_NOT_LISTED}",
    "remove it; docs/manifest.md lists what a manifest may set",
)
_ENGINE: Final = Refusal(
    "this engine argument is not on the allowlist", "remove it; docs/manifest.md lists the settings of serving"
)
_REMOTE_CODE: Final = Refusal(
    "Python code out of a model repository is never run",
    "remove it; choose a model whose architecture the runtime has itself",
)
_ENVIRONMENT: Final = Refusal(
    "a manifest sets no environment variables",
    "remove it; the worker builds the engine's whole environment, the same for every arm",
)
_DRAFT: Final = Refusal("the draft is not named here", "name it as draft_or_speculator, with its commit or digest")
_DRAFT_PARALLEL: Final = Refusal("the engine does not take this key here", "write draft_tensor_parallel_size")
_PER_REQUEST: Final = Refusal(
    "this is a property of each request, not of the experiment",
    "put it into the trace, where max_tokens is from 1 to 1,000,000; every arm replays the same requests",
)
_ONE_ANSWER: Final = Refusal(
    "one answer per request is measured: the engine counts a request's drafts for n = 1 only", "remove it"
)
_UNSAFE_SAMPLING: Final = Refusal(
    "the engine does not support this sampling parameter together with speculation",
    "remove it, so that target-only and every proposer sample alike",
)
_SAMPLING: Final = Refusal(
    "the replay does not send this sampling parameter",
    "remove it; docs/manifest.md lists those of sampling",
)

_GROUPS: Final[tuple[tuple[Refusal, str], ...]] = (
    (_CODE, "middleware tool_parser_plugin reasoning_parser_plugin io_processor_plugin logits_processors plugins"),
    (_CODE, "worker_cls worker_extension_cls scheduler_cls distributed_executor_backend executor_backend model_impl"),
    (_CODE, "logits_processor_pattern hf_overrides config_format tokenizer_mode load_format compilation_config"),
    (_CODE, "model_loader_extra_config"),
    (_ADDRESS, "host port uds root_path data_parallel_address"),
    (_ADDRESS, "ssl_keyfile ssl_certfile ssl_ca_certs ssl_cert_reqs ssl_ciphers"),
    (_ACCESS, "api_key api_keys hf_token token allowed_origins allow_credentials allowed_methods allowed_headers"),
    (_FILES, "config chat_template lora_modules enable_lora allowed_local_media_path allowed_media_domains"),
    (_FILES, "download_dir hf_config_path tokenizer_path draft_load_config log_config_file"),
    (_EXPORT, "otlp_traces_endpoint collect_detailed_traces kv_transfer_config kv_events_config ec_transfer_config"),
    (_EXPORT, "profiler_config"),
    (_MANAGED, "speculative_config generation_config override_generation_config disable_log_stats api_server_count"),
    (_REMOTE_CODE, "trust_remote_code"),
    (_ENVIRONMENT, "env envs environ environment environment_variables pythonpath cuda_visible_devices"),
    (_DRAFT, "speculative_model draft_model code_revision revision draft"),
    (_ONE_ANSWER, "n best_of"),
    (_PER_REQUEST, "max_tokens max_completion_tokens stop stop_token_ids prompt messages"),
    (_UNSAFE_SAMPLING, "logit_bias"),
    (_SAMPLING, "min_tokens logprobs prompt_logprobs bad_words skip_special_tokens"),
)
_REFUSALS: Final[Mapping[str, Refusal]] = {name: refusal for refusal, names in _GROUPS for name in names.split()}
_ENVIRONMENT_PREFIXES: Final = ("vllm_", "ld_", "nccl_", "hf_hub_")
_IN_SPECULATION: Final[Mapping[str, Refusal]] = {"model": _DRAFT, "tensor_parallel_size": _DRAFT_PARALLEL}


def refusal_of(key: str, parents: tuple[str, ...]) -> Refusal | None:
    """What to say of a key that no field has; ``parents`` are the fields it stands in. ``None``: nothing special."""
    name = key.strip().lstrip("-").lower().replace("-", "_")
    if "speculation" in parents and name in _IN_SPECULATION:
        return _IN_SPECULATION[name]
    if name in _REFUSALS:
        return _REFUSALS[name]
    if name.startswith(_ENVIRONMENT_PREFIXES):
        return _ENVIRONMENT
    return _ENGINE if parents[-1:] == ("serving",) else None
