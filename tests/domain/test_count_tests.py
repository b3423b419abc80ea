"""G-tests of sparse counts: what they find, and how often they accuse what is right."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from app.domain import count_tests
from app.domain.count_tests import fit_test, large_fit_test, two_sample_test, variation_bound

TOKENS = 30
WEIGHTS = 1 / np.arange(1, TOKENS + 1) ** 1.3
TRUTH = WEIGHTS / WEIGHTS.sum()


def _drawn(chance: np.random.Generator, samples: int, truth: np.ndarray = TRUTH) -> dict[int, int]:
    return dict(enumerate(map(int, chance.multinomial(samples, truth))))


def test_as_scipy_where_nothing_is_sparse() -> None:
    first, second = {"a": 40, "b": 60, "c": 100}, {"a": 50, "b": 65, "c": 85}
    test = two_sample_test([(first, second)])
    table = [list(first.values()), list(second.values())]
    expected: Any = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert (test.g, test.df) == (pytest.approx(expected.statistic), expected.dof)
    assert test.p == pytest.approx(expected.pvalue)


def test_fit_as_scipy() -> None:
    test = large_fit_test({0: 30, 1: 20, 2: 50}, {0: 0.25, 1: 0.25, 2: 0.5})
    expected = stats.power_divergence([30, 20, 50], [25, 25, 50], lambda_="log-likelihood")
    assert (test.g, test.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_published_variation_bound() -> None:
    """Method A14: ten cells, 100,000 samples, one in a million."""
    assert variation_bound(10, 100_000, 1e-6) == pytest.approx(0.01305, abs=5e-6)


def test_an_impossible_count_is_rejected() -> None:
    assert large_fit_test({0: 50, 1: 50, 2: 1}, {0: 0.5, 1: 0.5, 2: 0.0}).p == 0
    assert large_fit_test({0: 50, 1: 50, 3: 1}, {0: 0.5, 1: 0.5}).p == 0


def test_nothing_to_compare() -> None:
    assert two_sample_test([({"a": 9}, {"a": 9}), ({}, {"a": 3})]).p is None
    assert fit_test([({1: 50}, {1: 1.0})]).p is None


def test_pooling_leaves_no_small_expectation() -> None:
    weights, observed = count_tests.pooled(np.array([9.0, 1.0, 2.0, 8.0, 1.0]), np.array([9, 1, 2, 8, 1.0]), least=5)
    assert weights.min() >= count_tests.EXPECTED_MIN or len(weights) == 1
    assert weights.sum() == observed.sum() == 21


@pytest.mark.parametrize("kind", ["two samples", "fit"])
def test_false_alarms(kind: str) -> None:
    """Over 300 comparisons of what is alike, with sparse cells in eight strata."""
    chance = np.random.default_rng(7)
    truth = dict(enumerate(map(float, TRUTH)))
    found: list[float] = []
    for _ in range(300):
        if kind == "fit":
            test = fit_test([(_drawn(chance, 48), truth) for _ in range(8)])
        else:
            test = two_sample_test([(_drawn(chance, 48), _drawn(chance, 48)) for _ in range(8)])
        found.append(test.p or 0.0)
    for level in (0.05, 0.01):
        alarms = sum(p < level for p in found)
        assert stats.binomtest(alarms, len(found), level).pvalue > 1e-4


def test_a_difference_is_found() -> None:
    chance = np.random.default_rng(8)
    other = TRUTH**0.6 / (TRUTH**0.6).sum()
    test = two_sample_test([(_drawn(chance, 96), _drawn(chance, 96, other)) for _ in range(8)])
    assert test.p == 1 / (1 + count_tests.SIMULATIONS)


def test_detectable() -> None:
    ncp = count_tests.detectable_ncp(3, 1e-6, 0.99)
    assert stats.ncx2.sf(stats.chi2.isf(1e-6, 3), 3, ncp) == pytest.approx(0.99)
    assert count_tests.detectable_variation(3, ncp * 100, 1e-6, 0.99) == pytest.approx(0.05)
    assert math.isfinite(ncp)
