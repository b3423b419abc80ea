"""How far failed requests could move an arm's ratio: the worst and the best that they could have been.

A failed request has no latency, and whose requests fail may not be chance. The ratio counts it as infinitely slow; here
it is also counted as answered at once, on whichever side flatters or harms the arm most.
"""

import math
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.condition import Condition, expand
from app.domain.latency import e2e_ns
from app.domain.manifest import Manifest
from app.domain.paired import block_ratio
from app.domain.pairing import CompleteBlocks, Pair
from app.domain.statistics import quantile
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS


class Attrition(BaseModel):
    """The interval of ``request_speedup`` at one condition, widened to whatever the failed requests could have been."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    workload: str
    load: str
    failed_target: int
    failed_arm: int
    low: float | None
    """Lower limit with the arm's failures infinitely slow and target-only's answered at once; ``None``: no bound."""
    high: float | None
    """Upper limit the other way round."""


def attrition(manifest: Manifest, blocks: CompleteBlocks) -> tuple[Attrition, ...]:
    """Each candidate condition in which a request failed."""
    return tuple(_attritions(manifest, blocks))


def _attritions(manifest: Manifest, blocks: CompleteBlocks) -> Iterator[Attrition]:
    for condition in expand(manifest):
        pairs = blocks.pairs(condition)
        if condition.arm != BASELINE_ARM and any(_failed(pair, arm=side) for pair in pairs for side in (True, False)):
            yield _bounds(condition, pairs, manifest.margins.confidence)


def _bounds(condition: Condition, pairs: Sequence[Pair], confidence: float) -> Attrition:
    worst = [_log_ratio(_median(p, arm=False, failed=0.0), _median(p, arm=True, failed=math.inf)) for p in pairs]
    best = [_log_ratio(_median(p, arm=False, failed=math.inf), _median(p, arm=True, failed=0.0)) for p in pairs]
    return Attrition(
        arm=condition.arm,
        workload=condition.workload,
        load=condition.load,
        failed_target=sum(_failed(pair, arm=False) for pair in pairs),
        failed_arm=sum(_failed(pair, arm=True) for pair in pairs),
        low=block_ratio([one for one in worst if one is not None], confidence).low if None not in worst else None,
        high=block_ratio([one for one in best if one is not None], confidence).high if None not in best else None,
    )


def _times_ns(pair: Pair, *, arm: bool) -> list[int | None]:
    return [e2e_ns(o) for o in (pair.arm if arm else pair.target).observations]


def _failed(pair: Pair, *, arm: bool) -> int:
    return _times_ns(pair, arm=arm).count(None)


def _median(pair: Pair, *, arm: bool, failed: float) -> float | None:
    return quantile([failed if time is None else time / NS_PER_MS for time in _times_ns(pair, arm=arm)], 0.5)


def _log_ratio(target: float | None, arm: float | None) -> float | None:
    if not target or not arm or math.isinf(target) or math.isinf(arm):
        return None
    return math.log(target / arm)
