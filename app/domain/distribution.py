"""How a latency is spread over a condition's requests: the share that was as fast as that, over complete blocks.

At a bounded number of times, each one that was measured. The mean of the blocks' shares, so that one long block does
not speak for the others; the t interval over blocks holds at each time alone.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from app.domain.statistics import CONFIDENCE, mean_over_blocks, t_interval

SHARES: Final = (0.0, 0.01, 0.02, *(step / 20 for step in range(1, 20)), 0.98, 0.99, 0.995, 1.0)
"""Of the pooled times, those at which the share is told."""
SOURCE: Final = "mean of blocks' shares, t interval at each time alone"


class Distribution(BaseModel):
    """An empirical distribution function. ``low`` and ``high`` are ``None`` below two blocks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ms: tuple[float, ...]
    """Ascending, the fastest and the slowest time that there was among them."""
    share: tuple[float, ...]
    """Of the requests that count, those with such a time or a shorter one; below 1 at the end where requests failed."""
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    confidence: float | None
    offered: int
    counted: int
    """Requests that the shares are of."""
    timed: int
    """Those of them that have a time; the others count as infinitely slow."""
    blocks: int
    source: str = SOURCE


def distribution(runs: Sequence[Sequence[float]], *, offered: int) -> Distribution:
    """Of one list of times in ms for each block; ``inf`` where the request failed."""
    blocks = [sorted(run) for run in runs if run]
    pooled = sorted(value for run in blocks for value in run if value != float("inf"))
    at = _told(pooled)
    shares = [[bisect_right(run, ms) / len(run) for run in blocks] for ms in at]
    limits = [t_interval(values, CONFIDENCE) for values in shares]
    return Distribution(
        ms=at,
        share=tuple(mean_over_blocks(values, "share").value or 0.0 for values in shares),
        low=tuple(None if limit is None else max(limit.low, 0.0) for limit in limits),
        high=tuple(None if limit is None else min(limit.high, 1.0) for limit in limits),
        confidence=CONFIDENCE if len(blocks) > 1 else None,
        offered=offered,
        counted=sum(map(len, blocks)),
        timed=len(pooled),
        blocks=len(blocks),
    )


def _told(pooled: Sequence[float]) -> tuple[float, ...]:
    """The pooled times at ``SHARES``, each once."""
    last = len(pooled) - 1
    return tuple(dict.fromkeys(pooled[min(int(share * len(pooled)), last)] for share in SHARES)) if pooled else ()
