"""One run, request by request, in the units that people read."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.latency import e2e_ns, lateness_ns, ttft_ns
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its latencies from the due time; ``None`` where there is none."""

    seen: RequestObservation
    due_s: float
    late_ms: float | None
    ttft_ms: float | None
    e2e_ms: float | None


def cases(observations: Iterable[RequestObservation]) -> list[Case]:
    """The requests of a run in the order given."""
    return [Case(o, o.due_ns / NS_PER_S, _ms(lateness_ns(o)), _ms(ttft_ns(o)), _ms(e2e_ns(o))) for o in observations]


def _ms(interval_ns: int | None) -> float | None:
    return None if interval_ns is None else interval_ns / NS_PER_MS
