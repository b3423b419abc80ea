"""A first look at one run for the live page: point values only, no decision is taken from them."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.acceptance import DraftCounts, draft_counts, mean_length_incl
from app.domain.latency import e2e_ns, lateness_ns, output_throughput_tps, tpot_ns, ttft_ns, window_s
from app.domain.observation import RequestObservation
from app.domain.statistics import quantile
from app.domain.vocabulary import NS_PER_MS, Outcome


class RunSummary(BaseModel):
    """Latencies are of served requests; ``None`` where a quantity is undefined."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    offered: int
    success: int
    ttft_p50_ms: float | None
    tpot_p50_ms: float | None
    e2e_p50_ms: float | None
    output_throughput_tps: float | None
    acceptance_rate: float | None
    mean_length_incl: float | None
    lateness_p99_ms: float | None


def summarise(observations: Sequence[RequestObservation]) -> RunSummary:
    """Summarise a run's observations, whatever they are; an empty run has only zeros and ``None``."""
    served = [o for o in observations if o.outcome is Outcome.SUCCESS]
    seconds = window_s(observations)
    counts = sum((draft_counts(o) for o in observations), DraftCounts())
    return RunSummary(
        offered=len(observations),
        success=len(served),
        ttft_p50_ms=_quantile_ms(map(ttft_ns, served), 0.5),
        tpot_p50_ms=_quantile_ms(map(tpot_ns, served), 0.5),
        e2e_p50_ms=_quantile_ms(map(e2e_ns, served), 0.5),
        output_throughput_tps=None if seconds is None else output_throughput_tps(observations, seconds),
        acceptance_rate=counts.accepted / counts.drafted if counts.drafted else None,
        mean_length_incl=mean_length_incl(counts),
        lateness_p99_ms=_quantile_ms(map(lateness_ns, observations), 0.99),
    )


def _quantile_ms(values_ns: Iterable[float | None], q: float) -> float | None:
    return quantile([value / NS_PER_MS for value in values_ns if value is not None], q)
