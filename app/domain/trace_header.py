"""The first line of a trace: its name, where it comes from, and each load point's share of the requests."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from app.domain.arrival import ArrivalNote
from app.domain.vocabulary import Name

TRACE_FORMAT = "verdraft/trace/v0"
CLIENTS_MAX = 4096


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TraceLoad(_Frozen):
    """One load point's part of the trace: offered at a rate, or (closed loop) by a number of clients."""

    name: Name
    rate_rps: Annotated[float, Field(gt=0)] | None = None
    """Requests/s of an open loop."""
    clients: Annotated[int, Field(ge=1, le=CLIENTS_MAX)] | None = None
    """Of a closed loop: so many requests are in flight; each client sends its next when its last has ended."""
    requests: Annotated[int, Field(ge=1)]
    duration_ns: Annotated[int, Field(ge=0)]
    """The span of the offsets; 0 in a closed loop, which lasts until its requests are done."""
    arrival: ArrivalNote | None = None
    turns: Literal["recorded", "own"] | None = None
    """Whether the load holds sessions, and whose earlier answers their turns contain."""

    @model_validator(mode="after")
    def _open_or_closed(self) -> "TraceLoad":
        if (self.rate_rps is None) == (self.clients is None):
            raise ValueError("give rate_rps (open loop) or clients (closed loop), not both")
        if (self.duration_ns == 0) != (self.clients is not None):
            raise ValueError("duration_ns is above 0 in an open loop, and 0 in a closed one")
        return self

    @property
    def offered(self) -> str:
        """The load in words."""
        return f"{self.rate_rps:g} requests/s" if self.rate_rps is not None else f"closed loop of {self.clients}"


class Generator(_Frozen):
    """What made a synthetic trace: the same version, seed and dials make the same bytes."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    version: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    seed: int
    dials: dict[str, JsonValue] = {}


class TraceHeader(_Frozen):
    """``content_valid`` is false where prompts are not real text: acceptance on them means nothing."""

    format: Literal["verdraft/trace/v0"] = TRACE_FORMAT
    name: Name
    description: str
    source: str
    content_valid: bool
    warmup_requests: Annotated[int, Field(ge=0)]
    loads: Annotated[tuple[TraceLoad, ...], Field(min_length=1)]
    generator: Generator | None = None
    differs: tuple[str, ...] | None = None
    """Sentences: how this workload differs from production traffic."""
    record: dict[str, JsonValue] | None = None
    """How the trace was imported: reader, options, the source's sha256, rows read and left out."""
    privacy: Literal["keyed_hash"] | None = None
    """Prompts are keyed hashes; their text is in a file that only the worker reads."""

    def load(self, name: str) -> TraceLoad | None:
        """The load point of that name; ``None`` for the warm-up and for strangers."""
        return next((load for load in self.loads if load.name == name), None)
