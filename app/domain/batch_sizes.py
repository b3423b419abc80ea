"""How many requests ran at once in a condition, as the engine's own gauge was sampled during the replay."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.exposition import RUNNING
from app.domain.pairing import CompleteBlocks
from app.domain.series import the_one
from app.domain.statistics import quantile

SAMPLES_MIN: Final = 20
MIDDLE: Final = (0.1, 0.9)


class Batches(NamedTuple):
    """The middle 80% of the samples in which anything ran."""

    low: int
    high: int


def batches(blocks: CompleteBlocks, conditions: Sequence[Condition]) -> Batches | None:
    """Over all runs of these conditions; ``None`` below 20 samples."""
    running = [n for condition in conditions for run in blocks.of(condition) for n in _samples(run)]
    if len(running) < SAMPLES_MIN:
        return None
    low, high = (round(quantile(running, q) or 0) for q in MIDDLE)
    return Batches(low, high)


def _samples(run: RunEvidence) -> Iterator[float]:
    found = the_one(run.series, RUNNING)
    end_ns = max((o.end_ns or 0 for o in run.observations), default=0)
    if found is not None:
        yield from (n for at, n in zip(found.at_ns, found.values, strict=True) if 0 <= at <= end_ns and n > 0)
