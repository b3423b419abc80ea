"""One attempt in numbers: what the client recorded beside what the null engine wrote down."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from app.domain.client_range import ClientAttempt, Spread
from app.domain.observation import RequestObservation
from app.domain.statistics import quantile
from app.domain.vocabulary import NS_PER_S, Outcome
from worker.calibration.referee import Seen

_STEADY_NS_MIN = NS_PER_S // 10
Pair = tuple[RequestObservation, Seen]


def score(
    observations: Sequence[RequestObservation], origin_ns: int, log: Iterable[Seen], stolen_ns: int
) -> ClientAttempt:
    """Judge a replay that began at ``origin_ns`` by the null engine's log; both clocks are the host's monotonic one."""
    seen = {entry.request_id: entry for entry in log}
    pairs = [(o, seen[o.request_id]) for o in observations if o.request_id in seen]
    true_ttft = [entry.departed_ns[0] - entry.arrived_ns for _, entry in pairs if entry.departed_ns]
    return ClientAttempt(
        requests=len(observations),
        unserved=len(observations) - sum(o.outcome is Outcome.SUCCESS for o, _ in pairs),
        damaged=sum(is_damaged(o, entry) for o, entry in pairs),
        concurrency=peak_in_flight([entry for _, entry in pairs]),
        chunks_per_s=chunks_per_s([entry for _, entry in pairs]),
        achieved_share=_achieved_share(pairs),
        true_ttft_p50_ns=_rounded(quantile(true_ttft, 0.5)),
        lateness=spread([entry.arrived_ns - origin_ns - o.due_ns for o, entry in pairs]),
        sent_lateness=spread([o.sent_ns - o.due_ns for o, _ in pairs if o.sent_ns is not None]),
        receive_error=spread([*_receive_errors_ns(pairs, origin_ns)]),
        stolen_ns=stolen_ns,
    )


def failed(requests: int, failure: str) -> ClientAttempt:
    """An attempt that gave nothing to judge."""
    return ClientAttempt(
        requests=requests,
        unserved=requests,
        damaged=0,
        concurrency=0,
        chunks_per_s=0,
        achieved_share=None,
        true_ttft_p50_ns=None,
        lateness=None,
        sent_lateness=None,
        receive_error=None,
        failure=failure,
    )


def is_damaged(observation: RequestObservation, entry: Seen) -> bool:
    """Whether a chunk or token was lost, merged, altered or invented."""
    tokens = tuple(range(sum(entry.chunk_tokens)))
    return (observation.chunk_tokens, observation.token_ids) != (entry.chunk_tokens, tokens)


def peak_in_flight(log: Iterable[Seen]) -> int:
    """The most requests that had arrived and not yet sent their last chunk."""
    spans = [(entry.arrived_ns, entry.departed_ns[-1]) for entry in log if entry.departed_ns]
    events = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    peak = running = 0
    for _, change in events:  # at one moment, what ends is counted before what begins
        running += change
        peak = max(peak, running)
    return peak


def chunks_per_s(log: Sequence[Seen]) -> float:
    """Rate of departures while the load is steady: from when the first request has ended to the last arrival.

    Of a load that never is, over all of it, which says less than there was at the peak.
    """
    answered = [entry for entry in log if entry.departed_ns]
    if not answered:
        return 0.0
    departures = sorted(at_ns for entry in answered for at_ns in entry.departed_ns)
    first = min(answered, key=lambda entry: entry.arrived_ns)
    start_ns, end_ns = first.departed_ns[-1], max(entry.arrived_ns for entry in answered)
    if end_ns - start_ns < _STEADY_NS_MIN:
        start_ns, end_ns = first.arrived_ns, departures[-1]
    inside = bisect_right(departures, end_ns) - bisect_left(departures, start_ns)
    return inside * NS_PER_S / max(1, end_ns - start_ns)


def spread(values: Sequence[int]) -> Spread | None:
    """``None`` of nothing."""
    if not values:
        return None
    p50, p99 = (_rounded(quantile(values, q)) or 0 for q in (0.5, 0.99))
    return Spread(p50_ns=p50, p99_ns=p99, max_ns=max(values))


def _achieved_share(pairs: Sequence[Pair]) -> float | None:
    due = [o.due_ns for o, _ in pairs]
    arrived = [entry.arrived_ns for _, entry in pairs]
    took_ns = max(arrived, default=0) - min(arrived, default=0)
    return (max(due) - min(due)) / took_ns if took_ns else None


def _receive_errors_ns(pairs: Iterable[Pair], origin_ns: int) -> Iterator[int]:
    for observation, entry in pairs:
        if len(observation.chunk_ns) == len(entry.departed_ns):
            received = (origin_ns + at_ns for at_ns in observation.chunk_ns)
            yield from (got - left for got, left in zip(received, entry.departed_ns, strict=True))


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
