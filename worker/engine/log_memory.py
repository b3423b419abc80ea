"""The memory lines of a start-up log: vLLM 0.26 to 0.33, both model runners, CPU and GPU, any number of ranks.

Each process of the engine prints for itself, so a figure is kept for each process that printed it. Nothing is added
up here; ``memory_breakdown`` does, and says so.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from app.domain.memory import LoggedMemory
from worker.engine.log_lines import lines

GIB: Final = 1024**3
_SIZE = r"(\d+(?:\.\d+)?)"
_PROCESS = re.compile(r"^\(([^()]*\bpid=\d+)\)")
_LOAD = re.compile(rf"^Model loading took {_SIZE} GiB")
_CONSUMED = re.compile(rf"Actual usage is {_SIZE} GiB for consumed memory")
_NON_TORCH = re.compile(rf"\b{_SIZE} GiB for non-torch memory")
_ACTIVATIONS = re.compile(rf"\b{_SIZE} GiB for peak activation")
_GRAPHS = re.compile(rf"^Graph capturing finished in \d+ secs, took {_SIZE} GiB")
_GRAPHS_ESTIMATED = re.compile(rf"^Estimated CUDA graph memory: {_SIZE} GiB")
_KV_CACHE = (
    re.compile(rf"^Available KV cache memory: {_SIZE} GiB"),
    re.compile(rf"^(?:Explicitly|Auto) set \({_SIZE}/[\d.]+\) GiB for KV cache"),
    re.compile(rf"reserved {_SIZE} GiB memory for KV Cache"),
)
_DEVICE_FREE = re.compile(rf"^Free memory on device [^(]*\({_SIZE}/")
_DEVICE_TOTAL = re.compile(rf"^Free memory on device [^(]*\([\d.]+/{_SIZE} GiB\)")
_REQUESTED = re.compile(rf"Desired GPU memory utilization is \([\d.]+, {_SIZE} GiB\)")
_CHECKPOINT = re.compile(rf"Checkpoint size: {_SIZE} GiB")
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_SHARED = re.compile(r"Sharing target model (.+?) weights with the draft model")
_ESTIMATE_COUNTS = re.compile(r"^CUDA graph memory profiling is enabled")
_EAGER = re.compile(r"\benforce_eager=True\b")

_Told = Sequence[tuple[str, str]]
"""Process and message of each line that may matter."""


def logged_memory(text: str) -> LoggedMemory:
    """What the log says; of a process that printed a line twice the last counts."""
    told = list(_told(text))
    tokens, concurrency = _TOKENS.findall(text), _CONCURRENCY.findall(text)
    return LoggedMemory(
        load=_sizes(told, _LOAD),
        consumed=_sizes(told, _CONSUMED),
        non_torch=_sizes(told, _NON_TORCH),
        activations=_sizes(told, _ACTIVATIONS),
        graphs=_sizes(told, _GRAPHS),
        graphs_estimated=_sizes(told, _GRAPHS_ESTIMATED),
        estimate_counts=any(_ESTIMATE_COUNTS.search(message) for _, message in told),
        kv_cache=_sizes(told, *_KV_CACHE),
        kv_tokens=int(tokens[-1].replace(",", "")) if tokens else None,
        max_concurrency=float(concurrency[-1]) if concurrency else None,
        device_total=_sizes(told, _DEVICE_TOTAL),
        device_free=_sizes(told, _DEVICE_FREE),
        requested=_sizes(told, _REQUESTED),
        checkpoints=_checkpoints(told),
        shared=tuple(dict.fromkeys(_SHARED.findall(text))),
        eager=_EAGER.search(text) is not None,
    )


def _told(text: str) -> Iterator[tuple[str, str]]:
    """The lines that state a size, each with the process that wrote it."""
    for line, message in zip(text.splitlines(), lines(text), strict=True):
        if "GiB" in line or "graph memory" in line:
            process = _PROCESS.match(line)
            yield process[1] if process else "", message


def _sizes(told: _Told, *patterns: re.Pattern[str]) -> tuple[int, ...]:
    found: dict[str, int] = {}
    for process, message in told:
        for pattern in patterns:
            if size := pattern.search(message):
                found[process] = round(float(size[1]) * GIB)
    return tuple(found.values())


def _checkpoints(told: _Told) -> tuple[int, ...]:
    """Of the first process that loads: the target's, then the draft's."""
    found: dict[str, list[int]] = {}
    for process, message in told:
        if size := _CHECKPOINT.search(message):
            found.setdefault(process, []).append(round(float(size[1]) * GIB))
    return tuple(next(iter(found.values()), ()))
