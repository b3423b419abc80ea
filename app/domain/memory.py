"""Memory of one server as a measured breakdown: rows with a source each, and what they leave unexplained.

Nothing is inferred from the device's total alone: a row without a source of its own is ``None``.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class MemoryPart(StrEnum):
    """The rows of spec E4, in the order in which they are shown."""

    TARGET_WEIGHTS = "target weights"
    DRAFT_WEIGHTS = "draft weights"
    KV_CACHE_TARGET = "KV cache, target"
    KV_CACHE_DRAFT = "KV cache, draft"
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
    checks: tuple[MemoryCheck, ...] = ()
    caveats: tuple[str, ...] = ()
