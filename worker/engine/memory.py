"""What a running server's memory is made of, collected from its log, its configuration and its models' files."""

from collections.abc import Mapping
from pathlib import Path

from app.domain.memory import CacheFacts, LoggedMemory, MemoryFacts, ModelMemory
from app.domain.memory_breakdown import LOGGED
from app.domain.proposer import METHODS_IN_TARGET, METHODS_WITH_MODEL
from app.domain.vocabulary import Method
from worker.engine.log_memory import logged_memory
from worker.model_files.footprint import Held, footprint, head_in_target


def memory_facts(
    log: str,
    config: Mapping[str, str],
    *,
    method: Method,
    target: Path,
    draft: Path | None,
    capacity_bytes: int | None = None,
) -> MemoryFacts:
    """Everything for ``memory_breakdown.breakdown`` of the server that wrote ``log`` and resolved ``config``.

    ``config`` is what ``VllmServer.configuration`` gives, from either source. ``capacity_bytes`` is what the driver
    says of the devices together, or the host's memory on a CPU; without it a GPU's is read from the log.
    """
    told = logged_memory(log)
    held = _held(config)
    on_gpu = _value(config, "device_config.device", "device_config") != "cpu"
    return MemoryFacts(
        method=method,
        log=told,
        cache=_cache(config, told),
        target=footprint(target, held),
        draft=_draft(method, _of_draft(config, held), target, draft, told),
        ranks=held.ranks,
        on_gpu=on_gpu,
        capacity_bytes=capacity_bytes or sum(told.device_total) or None,
        capacity_source=("NVML" if on_gpu else "the host's memory") if capacity_bytes else LOGGED,
    )


def _draft(method: Method, held: Held, target: Path, draft: Path | None, told: LoggedMemory) -> ModelMemory | None:
    if method not in METHODS_WITH_MODEL:
        return None
    if draft is None and method in METHODS_IN_TARGET:
        return head_in_target(target, held)
    return None if draft is None else footprint(draft, held, shared=told.shared)


def _held(config: Mapping[str, str]) -> Held:
    return Held(
        dtype=_value(config, "model_config.dtype", "dtype") or "",
        cache_dtype=_value(config, "cache_config.cache_dtype", "kv_cache_dtype") or "auto",
        ranks=_count(config, "parallel_config.tensor_parallel_size", "tensor_parallel_size")
        * _count(config, "parallel_config.pipeline_parallel_size", "pipeline_parallel_size"),
    )


def _of_draft(config: Mapping[str, str], held: Held) -> Held:
    """The draft is held as the target is, but that its cache may have a type of its own."""
    stated = _value(config, "speculative_config.kv_cache_dtype")
    return held if stated in {None, "null"} else held._replace(cache_dtype=str(stated))


def _cache(config: Mapping[str, str], told: LoggedMemory) -> CacheFacts:
    """Blocks where the server states them; else the tokens of its log, which are the same for full attention."""
    blocks, block_tokens = (_value(config, f"cache_config.{key}") or "" for key in ("num_gpu_blocks", "block_size"))
    stated = _value(config, "cache_config.kv_cache_memory_bytes") or ""
    stated_bytes = int(stated) if stated.isdigit() else None
    if blocks.isdigit() and block_tokens.isdigit():
        words = f"resolved configuration, {int(blocks):,} blocks of {block_tokens} tokens"
        return CacheFacts(int(blocks) * int(block_tokens), words, int(block_tokens), stated_bytes)
    if told.kv_tokens is None:
        return CacheFacts(None, "neither configuration nor log says how large the cache is", 0, stated_bytes)
    return CacheFacts(told.kv_tokens, f'engine log, "KV cache size: {told.kv_tokens:,} tokens"', 0, stated_bytes)


def _count(config: Mapping[str, str], *keys: str) -> int:
    stated = _value(config, *keys) or ""
    return int(stated) if stated.isdigit() else 1


def _value(config: Mapping[str, str], *keys: str) -> str | None:
    return next((config[key] for key in keys if key in config), None)
