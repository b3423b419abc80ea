"""Memory of one server as a measured breakdown: rows with a source each, and what they leave unexplained.

Nothing is inferred from the device's total alone: a row without a source of its own is ``None``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from app.domain.vocabulary import Method


class MemoryPart(StrEnum):
    """The rows of spec E4, in the order in which they are shown."""

    TARGET_WEIGHTS = "target weights"
    DRAFT_WEIGHTS = "draft weights"
    WEIGHTS = "target and draft weights together"
    """Only where one source covers both and nothing else tells them apart."""
    KV_CACHE_TARGET = "KV cache, target"
    KV_CACHE_DRAFT = "KV cache, draft"
    KV_CACHE = "KV cache, target and draft together"
    """Only where the models' own words do not say how it is divided."""
    ACTIVATIONS = "activations at peak"
    GRAPHS = "graphs and workspaces"
    RESERVE = "allocator and driver reserve"
    REMAINDER = "not explained"
    HEADROOM = "measured headroom at peak"


class MemoryRow(BaseModel):
    """``size_bytes`` is ``None`` where no source tells; ``source`` then says why not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: MemoryPart
    size_bytes: int | None
    source: str
    """Which line, call or file it was read from, in words that name it."""
    at_most: bool = False
    """It was set aside, and nobody saw how much of it was in use: a bound, and no part of what the rows explain."""


class MemoryCheck(BaseModel):
    """The same quantity from two sources."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quantity: str
    size_bytes: int
    source: str
    other_bytes: int
    other_source: str


class MemoryBreakdown(BaseModel):
    """One server's memory; ``total_bytes`` is what its device (or its processes, on a CPU) had in use at peak."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: tuple[MemoryRow, ...]
    total_bytes: int | None
    total_source: str
    capacity_bytes: int | None
    """Of the device, or of the host."""
    kv_cache_tokens: int | None
    """How many tokens the KV cache holds, by the engine's own word."""
    max_concurrency: float | None
    """Requests of full length that it holds at once."""
    draft_file_bytes: int | None = None
    """On disk; ``None`` without a draft, and in sessions recorded before this was noted."""
    checks: tuple[MemoryCheck, ...] = ()
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """A quantity and where it is from; ``None`` with why not."""

    size: int | None
    source: str

    def row(self, part: MemoryPart) -> MemoryRow:
        """It as the row of that part."""
        return MemoryRow(part=part, size_bytes=self.size, source=self.source)


def summed(values: Sequence[int], ranks: int, line: str) -> Told:
    """The ranks' sum; a figure that not every rank printed is not multiplied into one."""
    if len(values) == ranks:
        return Told(sum(values), line if ranks == 1 else f"{line}, {ranks} processes together")
    return Told(None, f"{line}: printed by {len(values)} of {ranks} processes" if values else f"{line}: not printed")


@dataclass(frozen=True, slots=True)
class LoggedMemory:
    """The memory lines of a start-up log in bytes, one value for each process that printed the line.

    The engine prints GiB with two decimals at most, so each value is right to about 5 MB.
    """

    load: tuple[int, ...] = ()
    """``Model loading took``: target and draft in one figure."""
    consumed: tuple[int, ...] = ()
    """``consumed memory (weights + non-torch)``, from vLLM 0.27 on."""
    non_torch: tuple[int, ...] = ()
    """``non-torch memory``, before vLLM 0.27."""
    activations: tuple[int, ...] = ()
    graphs: tuple[int, ...] = ()
    """Captured, not estimated."""
    graphs_estimated: tuple[int, ...] = ()
    estimate_counts: bool = False
    """Whether the estimate was taken from the KV cache's room."""
    kv_cache: tuple[int, ...] = ()
    """Available for the cache, or set explicitly."""
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    device_total: tuple[int, ...] = ()
    device_free: tuple[int, ...] = ()
    """When the engine started, its own context already made."""
    requested: tuple[int, ...] = ()
    """The device's share that the engine may use."""
    checkpoints: tuple[int, ...] = ()
    """``Checkpoint size`` of the target, then of the draft; on disk, not in memory."""
    shared: tuple[str, ...] = ()
    """What the draft takes from the target instead of its own, in the engine's words."""
    eager: bool = False


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """What a model's own files say that it takes: computed, never measured. ``None`` where they do not say."""

    weights_bytes: int | None
    weights_words: str
    """How it was computed, or why it was not."""
    file_bytes: int | None
    kv_bytes_per_token: int | None
    """Over all ranks together."""
    kv_words: str


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """The KV cache as the engine resolved it."""

    tokens: int | None
    """All its blocks, in tokens."""
    words: str
    block_tokens: int = 0
    stated_bytes: int | None = None
    """Where it was set explicitly."""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Everything that a breakdown of one server is made of, but what was in use while it ran."""

    method: Method
    log: LoggedMemory
    cache: CacheFacts
    target: ModelMemory
    draft: ModelMemory | None
    """``None`` where the method has no model of its own."""
    ranks: int
    """Processes that each hold a part of the model or a copy of it."""
    on_gpu: bool
    capacity_bytes: int | None
    """Of the devices together, or of the host."""
    capacity_source: str
