"""From the referee's log and a client's own report to the figures of one run; pure.

Arrivals are compared with a constant rate that begins so that nothing is early. Latencies are compared with the
truth request by request where the client names its requests to the server, else rank by rank: that pairing makes
the errors as small as any pairing could, so it flatters a client, and never the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.replay.offer import Reported
from benchmarks.replay.referee import Served

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of one client; milliseconds. ``None``: the client reported nothing that could be compared."""

    served: int
    """Requests that the server saw and answered whole."""
    achieved: float
    """Achieved rate over offered rate, by the first and the last arrival."""
    lateness_p50_ms: float
    lateness_p99_ms: float
    lateness_max_ms: float
    ttft_error_p50_ms: float | None = None
    ttft_error_p99_ms: float | None = None
    gap_error_p50_ms: float | None = None
    gap_error_p99_ms: float | None = None
    gaps_are_means: bool = False


def judge(log: Sequence[Served], reported: Reported | None, *, rate_rps: float, tokens: int) -> Figures:
    """Raises ``ValueError`` where the server saw fewer than two whole requests."""
    arrived_ns = np.array([served.arrived_ns for served in log], dtype=np.int64)
    whole = [served for served in log if len(served.departed_ns) == tokens]
    if len(whole) < 2:  # noqa: PLR2004  (a rate needs two)
        raise ValueError(f"the server answered {len(whole)} requests with {tokens} chunks")
    lateness_ms = _lateness_ns(arrived_ns, rate_rps) / NS_PER_MS
    seconds = (arrived_ns[-1] - arrived_ns[0]) / NS_PER_S
    p50, p99, most = (float(value) for value in np.quantile(lateness_ms, (0.5, 0.99, 1.0)))
    achieved = float((len(log) - 1) / seconds / rate_rps)
    return Figures(len(whole), achieved, p50, p99, most, *_latency_errors(whole, reported))


def _lateness_ns(arrived_ns: "npt.NDArray[np.int64]", rate_rps: float) -> "npt.NDArray[np.float64]":
    """After the due times of the constant rate that begins so early that no request came before its own."""
    since_due_ns = arrived_ns - arrived_ns[0] - np.arange(len(arrived_ns)) * (NS_PER_S / rate_rps)
    return since_due_ns - since_due_ns.min()


def _latency_errors(
    whole: Sequence[Served], reported: Reported | None
) -> tuple[float | None, float | None, float | None, float | None, bool]:
    if reported is None or not reported.ttft_ns:
        return None, None, None, None, False
    ttft_ns, gaps_ns = _truth(whole, reported)
    ranked = not reported.request_ids
    return (
        *_error_ms(reported.ttft_ns, ttft_ns, ranked=ranked),
        *_error_ms(reported.gaps_ns, gaps_ns, ranked=ranked),
        reported.gaps_are_means,
    )


def _truth(whole: Sequence[Served], reported: Reported) -> tuple[list[int], list[float]]:
    """TTFTs and gaps as the server knows them, in the order of the report where it gives one."""
    by_id = {served.request_id: served for served in whole}
    ordered = [by_id[request_id] for request_id in reported.request_ids] if reported.request_ids else whole
    if reported.gaps_are_means:
        return [s.ttft_ns for s in ordered], [float(np.mean(s.gaps_ns)) for s in ordered]
    return [s.ttft_ns for s in ordered], [float(gap) for s in ordered for gap in s.gaps_ns]


def _error_ms(
    said_ns: Sequence[float], truth_ns: Sequence[float], *, ranked: bool
) -> tuple[float | None, float | None]:
    """Median and p99 of the absolute error. Ranked lists of unequal lengths are compared at common quantiles."""
    if not said_ns or not truth_ns:
        return None, None
    said, truth = np.array(said_ns, dtype=np.float64), np.array(truth_ns, dtype=np.float64)
    if ranked:
        at = np.linspace(0, 1, min(len(said), len(truth)))
        said, truth = np.quantile(said, at), np.quantile(truth, at)
    p50, p99 = np.quantile(np.abs(said - truth) / NS_PER_MS, (0.5, 0.99))
    return float(p50), float(p99)
