"""The loads at which a host's client was seen to keep time, measured against the null engine (spec R3).

A cell is one load with what its attempts showed. A load is within the range where a cell that passed is at
least as large in every respect; nothing is interpolated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, computed_field

from app.domain.vocabulary import NS_PER_MS, Sha256

RANGE_FORMAT: Final = "verdraft/client-range/v0"
CLIENT_RANGE: Final = "client-range"
"""The artifact's kind, of each session on a host that was calibrated."""
LATENESS_MAX_NS: Final = NS_PER_MS
LATENESS_SHARE_MAX: Final = 0.02
"""Of the median time to the first token; the larger of the two limits applies."""
RECEIVE_ERROR_MAX_NS: Final = NS_PER_MS
ATTEMPTS_MAX: Final = 3
PASSES_NEEDED: Final = 2
"""The majority of three: the best of three would only ask for luck."""


class _Frozen(BaseModel):
    """What is computed is written too, for readers of the document, and computed again when it is read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Spread(_Frozen):
    """How a time is distributed over requests or chunks."""

    p50_ns: int
    p99_ns: int
    max_ns: int


class ClientAttempt(_Frozen):
    """One replay against the null engine, judged by the null engine's own stamps.

    Without a single request that arrived, the times are ``None``. ``failure`` says why a replay gave nothing.
    """

    requests: int
    unserved: int
    """Requests that did not end well."""
    damaged: int
    """Answers whose chunks or tokens are not exactly those that were sent."""
    concurrency: int
    """The most requests that were in flight together."""
    chunks_per_s: float
    achieved_share: float | None
    """Rate at which the requests arrived / rate at which they were due."""
    true_ttft_p50_ns: int | None
    """Median time from a request's arrival to its first chunk, by the null engine."""
    lateness: Spread | None
    """A request's arrival, by the null engine, less its due time."""
    sent_lateness: Spread | None
    """The same by the client's own stamp: what it knew before the kernel and the null engine took over."""
    receive_error: Spread | None
    """When the client says that it received a chunk less when the null engine sent it."""
    stolen_ns: int = 0
    """Processor time that the hypervisor took meanwhile."""
    failure: str = ""

    @property
    def lateness_limit_ns(self) -> float:
        """``max(1 ms, 2 % of the median TTFT)``."""
        return max(LATENESS_MAX_NS, LATENESS_SHARE_MAX * (self.true_ttft_p50_ns or 0))

    @computed_field
    @property
    def complaint(self) -> str:
        """Why the client did not keep time; empty where it did."""
        return next(self._complaints(), "")

    def _complaints(self) -> Iterator[str]:
        late, sent, error = self.lateness, self.sent_lateness, self.receive_error
        if self.failure:
            yield self.failure
        if self.unserved or late is None or error is None:
            yield f"{self.unserved} of {self.requests} requests were not served"
        if self.damaged:
            yield f"{self.damaged} of {self.requests} answers are not the chunks and tokens that were sent"
        if late is not None and late.p99_ns > self.lateness_limit_ns:
            yield f"requests arrived late: {_over(late, self.lateness_limit_ns)}{self._whose(sent)}{self._stolen()}"
        if error is not None and error.p99_ns > RECEIVE_ERROR_MAX_NS:
            yield f"chunks were stamped late: {_over(error, RECEIVE_ERROR_MAX_NS)}{self._stolen()}"

    def _whose(self, sent: Spread | None) -> str:
        """A client that sent in time was let down by what comes after it."""
        if sent is None or sent.p99_ns > self.lateness_limit_ns:
            return ""
        return f"; the client sent in time (p99 {_ms(sent.p99_ns)}), the null engine was late to read"

    def _stolen(self) -> str:
        return f"; the hypervisor took {_ms(self.stolen_ns)} meanwhile" if self.stolen_ns else ""


class ClientCell(_Frozen):
    """One load. Its size is what was seen in the attempts that decided it, the smallest where they differ."""

    shape: str
    rate_rps: float
    attempts: tuple[ClientAttempt, ...]

    @property
    def decided(self) -> bool:
        """Whether further attempts can change nothing."""
        lost = len(self.attempts) - self._passes
        return self._passes >= PASSES_NEEDED or lost > ATTEMPTS_MAX - PASSES_NEEDED

    @computed_field
    @property
    def passed(self) -> bool:
        """Whether most of up to three attempts kept time."""
        return self._passes >= PASSES_NEEDED

    @computed_field
    @property
    def reason(self) -> str:
        """What was seen, in words."""
        count = len(self.attempts)
        if self.passed:
            return f"{self._passes} of {count} attempts kept time"
        failed = [attempt.complaint for attempt in self.attempts if attempt.complaint]
        return f"{len(failed)} of {count} attempts did not keep time: {failed[-1]}" if failed else "not decided"

    @computed_field
    @property
    def concurrency(self) -> int:
        """Requests in flight at the peak."""
        return min((attempt.concurrency for attempt in self.deciding), default=0)

    @computed_field
    @property
    def chunks_per_s(self) -> float:
        return min((attempt.chunks_per_s for attempt in self.deciding), default=0.0)

    @property
    def deciding(self) -> tuple[ClientAttempt, ...]:
        """The attempts that agree with how the cell was decided."""
        return tuple(attempt for attempt in self.attempts if (not attempt.complaint) is self.passed)

    @property
    def words(self) -> str:
        """The load that it stands for."""
        flight = f"{self.concurrency:,} in flight"
        return f"{self.rate_rps:,.4g} requests/s with {flight} and {self.chunks_per_s:,.0f} chunks/s"

    @property
    def _passes(self) -> int:
        return sum(not attempt.complaint for attempt in self.attempts)


class ClientHost(_Frozen):
    """What a calibration was made with; it says nothing of a host where any of this is otherwise."""

    cpu_model: str
    client_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    kernel: str
    python: str
    real_time: bool
    """Whether the client may take a real-time priority."""
    client_digest: Sha256
    """Of the client's sources."""

    def changes_to(self, now: "ClientHost") -> str:
        """What is otherwise now, in words; empty where nothing is."""
        return "; ".join(self._changes(now))

    def _changes(self, now: "ClientHost") -> Iterator[str]:
        if self.client_digest != now.client_digest:
            yield "the client's code changed"
        for name, words in _HOST_WORDS.items():
            before, after = getattr(self, name), getattr(now, name)
            if before != after:
                yield f"{words} changed from {_plain(before)} to {_plain(after)}"


_HOST_WORDS: Final = {
    "cpu_model": "the processor",
    "client_cores": "the client's cores",
    "engine_cores": "the engine's cores",
    "kernel": "the kernel",
    "python": "Python",
    "real_time": "a real-time priority for the client",
}


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """A load that is asked for; ``None`` is what cannot be known beforehand, and asks for nothing."""

    rate_rps: float | None = None
    concurrency: int | None = None
    chunks_per_s: float | None = None

    def share_of(self, cell: ClientCell) -> float:
        """The largest of what is asked for over what the cell has; above 1 the cell does not cover it."""
        pairs = (
            (self.rate_rps, cell.rate_rps),
            (self.concurrency, cell.concurrency),
            (self.chunks_per_s, cell.chunks_per_s),
        )
        return max((_share(asked, there) for asked, there in pairs if asked is not None), default=0.0)

    @property
    def words(self) -> str:
        """What is known of it."""
        named = (
            (self.rate_rps, "{:,.4g} requests/s"),
            (self.concurrency, "{:,} in flight"),
            (self.chunks_per_s, "up to {:,.0f} chunks/s"),
        )
        return " with ".join(form.format(value) for value, form in named if value is not None)


class ClientRange(_Frozen):
    """What one calibration found on one host."""

    format: Literal["verdraft/client-range/v0"] = RANGE_FORMAT
    measured_at: AwareDatetime
    quick: bool
    """Fewer and shorter attempts at fewer loads."""
    priority: str
    """What the host granted the client: ``real-time``, or a niceness."""
    host: ClientHost
    cells: tuple[ClientCell, ...]

    @property
    def passed(self) -> tuple[ClientCell, ...]:
        """The cells in which the client kept time."""
        return tuple(cell for cell in self.cells if cell.passed)

    def nearest(self, load: ClientLoad) -> ClientCell | None:
        """The passed cell that covers most of the load, the whole of it where one does; ``None`` if none passed."""
        return min(self.passed, key=load.share_of, default=None)

    def holds(self, load: ClientLoad) -> bool:
        """Whether a cell that passed is at least as large in every respect."""
        nearest = self.nearest(load)
        return nearest is not None and load.share_of(nearest) <= 1

    @property
    def measured(self) -> str:
        """When, for people."""
        return f"{self.measured_at:%Y-%m-%d %H:%M} UTC"

    @property
    def reach(self) -> str:
        """The largest of each, every one from a cell of its own."""
        if not self.passed:
            return "no load"
        rate = max(cell.rate_rps for cell in self.passed)
        concurrency = max(cell.concurrency for cell in self.passed)
        chunks = max(cell.chunks_per_s for cell in self.passed)
        return f"up to {rate:,.4g} requests/s, {concurrency:,} in flight, {chunks:,.0f} chunks/s"


def _share(asked: float, there: float) -> float:
    return asked / there if there else float(asked > 0) * float("inf")


def _over(spread: Spread, limit_ns: float) -> str:
    return f"p99 {_ms(spread.p99_ns)}, at most {_ms(limit_ns)} is allowed"


def _ms(value_ns: float) -> str:
    return f"{value_ns / NS_PER_MS:.2f} ms"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "granted" if value else "refused"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
