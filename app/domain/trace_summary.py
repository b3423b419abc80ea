"""What is known of a trace without its requests: sizes of strata, lengths, and how arrivals lie in time.

Made while the lines pass by, so a trace of a million requests costs no more memory than one of ten.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from app.domain.conversation import NamedTool
from app.domain.trace_header import TraceHeader
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import Sha256

ARRIVAL_BINS = 60
_OPTIONAL = ("structured_outputs", "logprobs", "deadline_ns", "cancel_at_ns", "salt_group", "chat_template_kwargs")


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LoadSummary(_Frozen):
    """One load point, or the warm-up. Lengths are in tokens."""

    requests: int
    input_tokens: int
    """Together, of those requests whose length is known."""
    unknown_length: int
    """Requests given as text whose length only the engine will know."""
    max_tokens: int
    """Asked for at most, together."""
    longest: int
    """The most tokens that one request can reach, prompt and answer; a prompt of unknown length counts as one."""
    arrivals: tuple[int, ...]
    """Requests due in each sixtieth of the load's duration; empty for the warm-up and closed loops."""
    input_lengths: dict[int, int]
    """Smallest power of two that the prompt fits → requests."""
    output_limits: dict[int, int]
    """The same of ``max_tokens``."""


class TraceSummary(_Frozen):
    """A trace in a few numbers. ``bytes`` counts the canonical lines."""

    digest: Sha256
    header: TraceHeader
    requests: int
    bytes: int
    loads: dict[str, LoadSummary]
    strata: dict[str, dict[str, int]]
    """Stratum (``task=copy``) → load → number of requests."""
    features: tuple[str, ...]
    """What its requests use beyond a plain prompt, such as ``chat``, ``tools`` or ``min_p``."""
    sessions: int


@dataclass(slots=True)
class _LoadTally:
    duration_ns: int
    requests: int = 0
    input_tokens: int = 0
    unknown_length: int = 0
    max_tokens: int = 0
    longest: int = 0
    arrivals: list[int] = field(default_factory=lambda: [0] * ARRIVAL_BINS)
    input_lengths: Counter[int] = field(default_factory=Counter[int])
    output_limits: Counter[int] = field(default_factory=Counter[int])

    def add(self, request: TraceRequest) -> None:
        self.requests += 1
        self.max_tokens += request.max_tokens
        self.output_limits[power_of_two(request.max_tokens)] += 1
        length = request.prompt_tokens
        self.longest = max(self.longest, (length or 1) + request.max_tokens)
        if length is None:
            self.unknown_length += 1
        else:
            self.input_tokens += length
            self.input_lengths[power_of_two(length)] += 1
        if self.duration_ns:
            self.arrivals[min(request.due_ns * ARRIVAL_BINS // self.duration_ns, ARRIVAL_BINS - 1)] += 1

    def summary(self) -> LoadSummary:
        return LoadSummary(
            requests=self.requests,
            input_tokens=self.input_tokens,
            unknown_length=self.unknown_length,
            max_tokens=self.max_tokens,
            longest=self.longest,
            arrivals=tuple(self.arrivals) if self.duration_ns else (),
            input_lengths=dict(sorted(self.input_lengths.items())),
            output_limits=dict(sorted(self.output_limits.items())),
        )


class Tally:
    """Counts requests as they pass; ``summary`` closes it."""

    def __init__(self, header: TraceHeader) -> None:
        self._header = header
        self._loads: dict[str, _LoadTally] = {}
        self._strata: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._features: set[str] = set()
        self._sessions = 0

    def add(self, request: TraceRequest) -> None:
        """Count one request."""
        if request.load not in self._loads:
            load = self._header.load(request.load)
            self._loads[request.load] = _LoadTally(load.duration_ns if load else 0)
        self._loads[request.load].add(request)
        for dimension, label in request.strata.items():
            self._strata[f"{dimension}={label}"][request.load] += 1
        self._features.update(features(request))
        self._sessions += request.turn is not None and request.turn.index == 0

    def of_load(self, load: str) -> int:
        """Requests counted so far."""
        return self._loads[load].requests if load in self._loads else 0

    def summary(self, *, digest: str, size: int) -> TraceSummary:
        """The finished summary."""
        return TraceSummary(
            digest=digest,
            header=self._header,
            requests=sum(tally.requests for tally in self._loads.values()),
            bytes=size,
            loads={name: tally.summary() for name, tally in self._loads.items()},
            strata={stratum: dict(sizes) for stratum, sizes in sorted(self._strata.items())},
            features=tuple(sorted(self._features)),
            sessions=self._sessions,
        )


def features(request: TraceRequest) -> Iterator[str]:
    """What a request uses beyond a plain prompt; preflight asks whether a runtime can serve it."""
    uses = {
        "chat": bool(request.messages),
        "text": request.prompt is not None,
        "prompt_hash": request.prompt_hash is not None,
        "tools": bool(request.tools),
        "stop": bool(request.stop),
        **{name: getattr(request, name) is not None for name in _OPTIONAL},
    }
    yield from (name for name, is_used in uses.items() if is_used)
    yield from request.sampling.model_dump(exclude_none=True) if request.sampling else ()
    if request.tools:
        yield f"tool_choice:{_word_of(request.tool_choice)}"
    if request.turn is not None:
        yield f"turns:{request.turn.answer}"


def _word_of(choice: str | NamedTool | None) -> str:
    """Where tools are given without a choice, the engine takes ``auto``."""
    return "named" if isinstance(choice, NamedTool) else choice or "auto"


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``; of 0 it is 1."""
    return 1 << max(0, number - 1).bit_length()
