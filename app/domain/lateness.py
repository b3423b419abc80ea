"""When a client sent so late that its run says more about the client than about the engine (method A13)."""

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.latency import lateness_ns, ttft_ns
from app.domain.observation import RequestObservation
from app.domain.statistics import quantile
from app.domain.vocabulary import NS_PER_MS

LATENESS_MAX_NS = 5 * NS_PER_MS
LATENESS_SHARE_MAX = 0.02
"""Of the median TTFT; the larger of the two limits applies."""


class Lateness(NamedTuple):
    """The client's p99 lateness beside what is allowed."""

    p99_ns: float
    limit_ns: float

    @property
    def words(self) -> str:
        """Why the run is void, if it is."""
        return (
            f"the client sent late: p99 {self.p99_ns / NS_PER_MS:.1f} ms, "
            f"at most {self.limit_ns / NS_PER_MS:.1f} ms is allowed, so the run is void"
        )


def lateness_of(observations: Sequence[RequestObservation]) -> Lateness | None:
    """p99 of ``sent - due`` and its limit, ``max(5 ms, 2 % of the median TTFT)``; ``None`` if nothing was sent."""
    lateness = quantile([late for o in observations if (late := lateness_ns(o)) is not None], 0.99)
    median_ttft = quantile([ttft for o in observations if (ttft := ttft_ns(o)) is not None], 0.5)
    if lateness is None:
        return None
    return Lateness(lateness, max(LATENESS_MAX_NS, LATENESS_SHARE_MAX * (median_ttft or 0)))


def late_client(observations: Sequence[RequestObservation]) -> str | None:
    """Why the run is void; ``None`` if it is not."""
    found = lateness_of(observations)
    return found.words if found is not None and found.p99_ns > found.limit_ns else None
