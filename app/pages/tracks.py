"""A run's timeline in a few numbers a line, for those who cannot or will not look at the drawing."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.timeline import Track


@dataclass(frozen=True, slots=True)
class TrackSummary:
    """One line of the timeline."""

    name: str
    unit: str
    device: str | None
    samples: int
    smallest: float
    largest: float
    last: float


def summaries(tracks: Sequence[Track]) -> list[TrackSummary]:
    """Each track that has samples."""
    return [
        TrackSummary(t.name, t.unit, t.device, len(t.values), min(t.values), max(t.values), t.values[-1])
        for t in tracks
        if t.values
    ]
