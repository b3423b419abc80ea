"""What a sampler is told on its command line."""

import json
from dataclasses import asdict, dataclass
from typing import Any

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Which GPUs and processes to watch, how often, and where to write.

    The engine is the tree of ``engine_pid``, or of every process with ``engine_mark`` (``NAME=value``) in its
    environment. ``clients`` are first processes of trees that load it; ``worker_pid`` is one process that is ours too.
    """

    path: str
    gpus: tuple[str, ...] = ()
    engine_pid: int | None = None
    engine_mark: str | None = None
    clients: tuple[int, ...] = ()
    worker_pid: int | None = None
    cores: tuple[int, ...] = ()
    recording: str | None = None
    """A sampler's file that stands in for the GPUs of a host without."""
    fast_ns: int = NS_PER_S // 10
    slow_ns: int = NS_PER_S // 2
    host_ns: int = NS_PER_S


def encode(plan: SamplingPlan) -> str:
    """The plan as one argument."""
    return json.dumps(asdict(plan))


def decode(argument: str) -> SamplingPlan:
    """The plan that ``encode`` made."""
    fields: dict[str, Any] = json.loads(argument)
    lists = {name: tuple(fields.pop(name)) for name in ("gpus", "clients", "cores")}
    return SamplingPlan(**lists, **fields)
