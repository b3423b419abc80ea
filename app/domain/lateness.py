"""When a client sent so late that its run says more about the client than about the engine (method A13)."""

from collections.abc import Sequence

from app.domain.latency import lateness_ns, ttft_ns
from app.domain.observation import RequestObservation
from app.domain.statistics import quantile
from app.domain.vocabulary import NS_PER_MS

LATENESS_MAX_NS = 5 * NS_PER_MS
LATENESS_SHARE_MAX = 0.02
"""Of the median TTFT; the larger of the two limits applies."""


def late_client(observations: Sequence[RequestObservation]) -> str | None:
    """Why the run is void: its p99 lateness is above ``max(5 ms, 2 % of the median TTFT)``; ``None`` if it is not."""
    lateness = quantile([late for o in observations if (late := lateness_ns(o)) is not None], 0.99)
    median_ttft = quantile([ttft for o in observations if (ttft := ttft_ns(o)) is not None], 0.5)
    limit = max(LATENESS_MAX_NS, LATENESS_SHARE_MAX * (median_ttft or 0))
    if lateness is None or lateness <= limit:
        return None
    return (
        f"the client sent late: p99 {lateness / NS_PER_MS:.1f} ms, "
        f"at most {limit / NS_PER_MS:.1f} ms is allowed, so the run is void"
    )
