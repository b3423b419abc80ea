"""The live panel: one picture of the run under way as tiles, small charts and the table of the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.live import LivePicture, LivePoint, LiveRun, column, greatest

WIDTH: Final = 100
HEIGHT: Final = 30


@dataclass(frozen=True, slots=True)
class Spark:
    """A line over the run so far, from 0 to ``top``; ``paths`` are broken where a value is missing."""

    title: str
    unit: str
    name: str
    """Of the quantity, for the table."""
    now: float | None
    top: float
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Now:
    """What the panel shows. ``sparks`` are empty while no replay runs."""

    picture: LivePicture
    sparks: tuple[Spark, ...]

    @property
    def run(self) -> LiveRun | None:
        """The run under way."""
        return self.picture.run


def now_of(picture: LivePicture) -> Now:
    """The picture with its charts drawn."""
    run = picture.run
    if run is None:
        return Now(picture, ())
    history = run.history
    return Now(
        picture,
        (
            _spark("Output", "tokens/s", "tokens_per_s", run.tokens_per_s, history),
            _spark("In the engine", "requests", "running", float(run.running + run.waiting), history),
            _spark("KV cache in use", "share", "kv_cache_usage", run.kv_cache_usage, history, top=1.0),
            *(
                [_spark("Acceptance", "share", "acceptance", run.acceptance, history, top=1.0)]
                if run.drafted is not None
                else []
            ),
        ),
    )


def _spark(
    title: str, unit: str, name: str, now: float | None, history: Sequence[LivePoint], *, top: float | None = None
) -> Spark:
    values = [float(p.running + p.waiting) for p in history] if name == "running" else column(history, name)
    reached = top or greatest([*values, now])
    highest = max(reached, 1e-9)
    span_s = max(history[-1].at_s, 1e-9) if history else 1.0
    placed = [
        None if value is None else (WIDTH * point.at_s / span_s, HEIGHT * (1 - min(1.0, value / highest)))
        for point, value in zip(history, values, strict=True)
    ]
    return Spark(title, unit, name, now, reached, tuple(_paths(placed)))


def _paths(placed: Sequence[tuple[float, float] | None]) -> list[str]:
    """Each unbroken stretch as the points of a line."""
    stretches: list[list[str]] = [[]]
    for place in placed:
        if place is None:
            stretches.append([])
        else:
            stretches[-1].append(f"{place[0]:.1f},{place[1]:.1f}")
    return [" ".join(stretch) for stretch in stretches if len(stretch) > 1]
