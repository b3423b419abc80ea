"""What every load generator is asked to do, and what it says afterwards."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Offer:
    """A constant rate of streamed completions against the referee on loopback."""

    rate_rps: float
    requests: int
    tokens: int
    """Each in a chunk of its own."""
    port: int
    model: str
    tokenizer: Path
    """A local directory; no client may reach for a hub."""
    directory: Path
    """Empty; what the client writes goes here."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Reported:
    """What the client measured, by its own account."""

    ttft_ns: tuple[int, ...]
    """One a request that it counts as served, in any order."""
    gaps_ns: tuple[float, ...]
    """Times between the chunks of one answer, of all answers together."""
    gaps_are_means: bool = False
    """Each gap is one request's mean: the client keeps no finer record, so its errors average out."""
    request_ids: tuple[str, ...] = ()
    """In the order of ``ttft_ns`` and of the answers in ``gaps_ns``; empty where the server never hears of them."""
    spun_s: float = 0.0
    """Processor time that the client says it spent waiting for exact moments."""


class LoadGenerator(Protocol):
    """One client under test. ``prepare`` writes the files that it needs; all raise ``OSError`` or ``ValueError``."""

    @property
    def name(self) -> str: ...

    def prepare(self, offer: Offer) -> None: ...

    def argv(self, offer: Offer) -> tuple[str, ...]:
        """The command, run in ``offer.directory`` on the cores that every client gets."""
        ...

    def environment(self) -> dict[str, str]:
        """What to add to a minimal environment."""
        ...

    def reported(self, offer: Offer) -> Reported:
        """Read the client's own result files."""
        ...
