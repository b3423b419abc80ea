"""Numbers that nobody here wrote, through our own functions (method A17: G5, G7, G8, G9, G11, G12)."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from app.domain.paired import bonferroni, holm
from app.domain.statistics import mean_over_blocks, quantile, spread
from app.domain.steadiness import truncation
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


CONTROL = (7.40, 8.50, 7.20, 8.24, 9.84, 8.32)
DRUGS = ((9.76, 8.80, 7.68, 9.36), (12.80, 9.68, 12.16, 9.20, 10.55))
"""Dunnett 1955, as SciPy's documentation has them: two drugs against one control."""


def _against_control() -> tuple[list[float], float, int]:
    """Each drug's t against the control by the pooled deviation, as Dunnett takes it."""
    groups = [np.asarray(group) for group in (CONTROL, *DRUGS)]
    freedom = sum(map(len, groups)) - len(groups)
    pooled = math.sqrt(sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / freedom)
    errors = [pooled * math.sqrt(1 / len(CONTROL) + 1 / len(g)) for g in groups[1:]]
    return [float(g.mean() - groups[0].mean()) / e for g, e in zip(groups[1:], errors, strict=True)], pooled, freedom


def test_g7_our_correction_of_a_family_is_never_bolder_than_dunnett_s() -> None:
    published = (0.62004941, 0.0059035)
    exact = stats.dunnett(*map(np.asarray, DRUGS), control=np.asarray(CONTROL), rng=np.random.default_rng(1955))
    assert list(exact.pvalue) == pytest.approx(published, abs=2e-4)
    ratios, _, freedom = _against_control()
    ours = holm([2 * float(stats.t.sf(abs(t), freedom)) for t in ratios])
    assert ours[1] is not None
    assert published[1] < ours[1] < 0.01


def test_g7_our_intervals_of_a_family_hold_dunnett_s_and_are_hardly_wider() -> None:
    exact = stats.dunnett(*map(np.asarray, DRUGS), control=np.asarray(CONTROL), rng=np.random.default_rng(1955))
    limits = exact.confidence_interval(0.95)
    ratios, pooled, freedom = _against_control()
    critical = float(stats.t.ppf(0.5 + bonferroni(0.95, len(DRUGS)) / 2, freedom))
    for group, t, low, high in zip(DRUGS, ratios, limits.low, limits.high, strict=True):
        error = pooled * math.sqrt(1 / len(CONTROL) + 1 / len(group))
        ours = (t - critical) * error, (t + critical) * error
        assert ours[0] < low < high < ours[1]
        assert (ours[1] - ours[0]) / (high - low) < 1.05


_ADSORBED = """
    38 42 44 44 44 46 45 47 51 50 50 51 52 50 50 52 50 51 55 55 52 53 55 53 53 53 56 59 60 61
    64 61 60 60 61 66 68 69 71 67 67 65 68 65 67 62 62 63 66 65 68 74 76 78 78 78 75 77 75 71
    75 74 70 71 71 70 70 69 66 67 66 66 68 69 66 66 64 64 65 65 65 67 66 69 65 65 63 64 60 64
    65 68 68 68 66 68 71 71 73 72 74 78 82 79 80 77 74 73 71 72 70 66 70 71 72 77 79 75 78 79
    78 76 73 74 73 73 71 79 82 83 82 80 82 81 78 81 84 85 85 82 78 78 79 76 78 78 77 76 77 77
    81 79 75 76 74 72 69 70 68 64 61 65 63 64 67 66 65 64 72 75 77 76 71 70 70 67 61 61 63 65
    64 65 65 69 67 73 67 65 67 72 67 69 69 68 66 67 69 67 66 66 69 69 73 67 69 67 64 61 61 64
    61 63 64 63 64 68 66 66 65 60 63 61 63 63 61 64 62 61 62 66 70 69 67 67 70 66 71 70 70 70
    65 68 67 64 61 61 61 65 66 68 67 62 64 63 65 68 70 72 73 74 74 73 72 70 72 70 69 71 70 73
    74 75 74 73 74 73 72 72 75 77 73 76 75 74 72 70 68 71 68 67 70 72 67 67 68 65 64 62 66 66
"""
ADSORBED = [float(count) for count in _ADSORBED.split()]
"""Molecules adsorbed at each of the first 300 steps of a simulation: the first column of ``example_data/
enthalpy_data.csv`` of pyMSER (IBM, BSD 3-Clause; Oliveira et al. 2024, doi 10.1021/acs.jctc.4c00417)."""


@pytest.mark.parametrize("steps", range(100, 301, 25))
def test_g12_mser_5_leaves_out_what_pymser_s_curve_leaves_out(steps: int) -> None:
    """PyMSER 1.0.22 has the minimum of its curve (``calculate_MSEm(…, 5)``) up to the middle at batch 7 for each."""
    found = truncation(ADSORBED[:steps])
    assert found is not None
    assert found == (7, steps // 5)
    assert found.steady == (steps // 10 > 7)
