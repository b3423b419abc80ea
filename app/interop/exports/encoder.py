"""How an export is written: bytes at the start, for each run, and at the end; nothing is kept that was given away."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from app.domain.evidence import RunEvidence
from app.interop.exports.outline import Outline


class Encoder(Protocol):
    """Writes one export. Runs are added in the experiment's order."""

    def begin(self) -> bytes:
        """What comes before the first run."""
        ...

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        """One run's part, in pieces."""
        ...

    def end(self) -> bytes:
        """What comes after the last run."""
        ...


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One format by its name: what it is called in a path, and who writes it."""

    name: str
    media_type: str
    suffix: str
    encoder: Callable[[Outline], Encoder]
    whole_runs: bool = False
    """Whether a run has to be added at once; else in any portions, one after the other."""
    one_run: "ExportFormat | None" = None
    """How a single run is written, where that is no archive."""


def encode(encoder: Encoder, runs: Iterable[RunEvidence]) -> Iterator[bytes]:
    """A whole export in pieces."""
    yield encoder.begin()
    for run in runs:
        yield from encoder.add(run)
    yield encoder.end()
