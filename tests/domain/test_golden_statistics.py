"""Numbers that nobody here wrote, through our own functions (method A17: G5, G8, G9, G11)."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from app.domain.statistics import mean_over_blocks, quantile, spread
from benchmarks.statistics.queues import served
from benchmarks.statistics.twins import ranks


@pytest.mark.parametrize(
    ("q", "queries"), [(0.90, 23_886), (0.95, 50_425), (0.97, 85_811), (0.99, 262_742)], ids=["90", "95", "97", "99"]
)
def test_g5_mlperf_s_numbers_of_queries_for_a_claim_about_a_tail(q: float, queries: int) -> None:
    """A margin of a twentieth of the tail at 99%, by the same normal quantile that our intervals are built on."""
    margin = (1 - q) / 20
    assert math.ceil(stats.norm.ppf(0.995) ** 2 * q * (1 - q) / margin**2) == pytest.approx(queries, abs=1)


def test_g8_queues_with_a_known_answer_through_our_quantile() -> None:
    rng = np.random.default_rng(8)
    due = np.cumsum(rng.exponential(1 / 0.8, 400_000))
    sojourn = served(due, rng.exponential(1.0, due.size), 1) - due
    assert float(sojourn.mean()) == pytest.approx(5.0, rel=0.05)
    assert quantile(list(sojourn), 0.99) == pytest.approx(23.0259, rel=0.06)
    waited = served(due, np.ones(due.size), 1) - due - 1
    assert float(waited.mean()) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("n", "q", "limits"),
    [(1000, 0.50, (469, 532)), (1000, 0.95, (936, 964)), (1000, 0.99, (983, 997)), (300, 0.99, (293, None))],
)
def test_g9_order_statistic_ranks(n: int, q: float, limits: tuple[int, int | None]) -> None:
    assert ranks(n, q) == limits


@pytest.mark.parametrize(("q", "least"), [(0.95, 72), (0.99, 368)])
def test_g9_an_upper_limit_needs_enough_requests(q: float, least: int) -> None:
    assert ranks(least - 1, q)[1] is None
    assert ranks(least, q)[1] is not None


def _nist(first: float, low: float, high: float) -> list[float]:
    return [first, *(value for _ in range(500) for value in (low, high))]


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        ([10_000_001.0, 10_000_003.0, 10_000_002.0], 10_000_002.0, 1.0),
        (_nist(1.2, 1.1, 1.3), 1.2, 0.1),
        (_nist(1_000_000.2, 1_000_000.1, 1_000_000.3), 1_000_000.2, 0.1),
        (_nist(10_000_000.2, 10_000_000.1, 10_000_000.3), 10_000_000.2, 0.1),
    ],
    ids=["NumAcc1", "NumAcc2", "NumAcc3", "NumAcc4"],
)
def test_g11_nist_s_univariate_summaries(values: list[float], mean: float, sd: float) -> None:
    found = mean_over_blocks(values, "s")
    assert found.value == pytest.approx(mean, rel=1e-15)
    # What is subtracted has lost digits to its size already when it is written in binary.
    assert spread(values) == pytest.approx(sd, rel=1e-8)
    assert all(a != b for a, b in pairwise(values))
