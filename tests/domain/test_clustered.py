import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.domain.clustered import attainment, clopper_pearson, good_rate, ratio_limits, ratio_of_totals, share_limits


def test_no_drafts_is_undefined_never_zero() -> None:
    nothing = ratio_of_totals([0, 0], [0, 0], "share")
    assert nothing.value is None
    assert nothing.why == "no drafts proposed"


def test_the_ratio_is_of_totals_not_a_mean_of_ratios() -> None:
    assert ratio_of_totals([1, 90], [10, 100], "share").value == pytest.approx(91 / 110)


def test_identical_ratios_have_no_spread_to_estimate() -> None:
    same = ratio_of_totals([3] * 40, [4] * 40, "share")
    assert same.value == 0.75
    assert same.low is None
    assert "same ratio" in (same.why or "")


def test_clustered_interval_covers_where_a_binomial_one_cannot() -> None:
    """Method A1: Beta(2.5, 1.5) acceptance per request, 60 requests; Wald covers about 26%."""
    rng = np.random.default_rng(11)
    truth, repeats, clustered, wald = 2.5 / 4, 300, 0, 0
    for _ in range(repeats):
        drafted = rng.integers(5, 60, 60) * 4
        accepted = rng.binomial(drafted, rng.beta(2.5, 1.5, 60))
        found = ratio_of_totals(list(accepted), list(drafted), "share")
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        clustered += found.low <= truth <= found.high
        half = 1.96 * math.sqrt(found.value * (1 - found.value) / drafted.sum())
        wald += abs(found.value - truth) <= half
    assert clustered / repeats > 0.90
    assert wald / repeats < 0.50


def test_attainment_is_over_offered_and_holds_its_value() -> None:
    everything = attainment([10, 10, 10], [10, 10, 10])
    assert everything.value == everything.high == 1.0
    half = attainment([4, 5, 6], [10, 10, 10])
    assert half.value == 0.5
    assert half.low is not None
    assert half.low < 0.5


def test_the_error_is_that_of_leaving_out_one_request_at_a_time() -> None:
    accepted, drafted = [3, 8, 2, 9, 5, 7], [10, 10, 10, 12, 9, 10]
    n, ratio = len(accepted), sum(accepted) / sum(drafted)
    without = [(sum(accepted) - a) / (sum(drafted) - d) for a, d in zip(accepted, drafted, strict=True)]
    error = math.sqrt((n - 1) / n * sum((one - ratio) ** 2 for one in without))
    effective = sum(drafted) ** 2 / sum(d**2 for d in drafted)
    half = float(stats.t.ppf(0.975, effective - 1)) * error / (ratio * (1 - ratio))
    found = ratio_of_totals(accepted, drafted, "share")
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1 / (1 + math.exp(-(math.log(ratio / (1 - ratio)) - half))) + 1e-12
    assert found.high >= 1 / (1 + math.exp(-(math.log(ratio / (1 - ratio)) + half))) - 1e-12
    assert found == ratio_of_totals(accepted, drafted, "share")


def test_many_sets_at_once_are_each_as_alone_and_empty_requests_count_for_nothing() -> None:
    rng = np.random.default_rng(5)
    drafted = rng.integers(0, 9, (7, 12)) * 4
    accepted = rng.binomial(drafted, 0.4)
    together = ratio_limits(accepted, drafted, 1.0)
    for row, (a, d) in enumerate(zip(accepted, drafted, strict=True)):
        alone = ratio_of_totals(list(a), list(d), "share")
        assert (together.low[row], together.high[row]) == pytest.approx((alone.low, alone.high))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=3, max_size=12), st.floats(2, 50))
def test_the_unit_of_the_counts_does_not_matter(pairs: list[tuple[int, int]], factor: float) -> None:
    accepted, drafted = [min(a, d) for a, d in pairs], [d for _, d in pairs]
    plain = ratio_of_totals(accepted, drafted, "share")
    scaled = ratio_of_totals([a * factor for a in accepted], [d * factor for d in drafted], "share")
    if plain.low is not None and plain.high is not None and plain.value is not None:
        assert 0 <= plain.low <= plain.value + 1e-9 <= plain.high + 2e-9 <= 1 + 2e-9
        assert (scaled.low, scaled.high) == pytest.approx((plain.low, plain.high), abs=1e-6)


def test_lengths_stay_within_what_was_drafted() -> None:
    accepted, drafts = [40, 38, 12, 40, 36], [10, 10, 10, 10, 10]
    found = ratio_of_totals(accepted, drafts, "tokens", most=4.0, shift=1.0)
    assert found.value == pytest.approx(4.32)
    assert found.high is not None
    assert found.high <= 5.0
    unbounded = ratio_of_totals(accepted, drafts, "tokens", most=None, shift=1.0)
    assert unbounded.high is not None
    assert unbounded.high > found.high


def test_clopper_pearson_is_scipy_s() -> None:
    for successes, n in ((0, 10), (3, 10), (10, 10)):
        limits = stats.binomtest(successes, n).proportion_ci(0.95, method="exact")
        found = clopper_pearson(successes, n)
        assert (float(found.low), float(found.high)) == pytest.approx((limits.low, limits.high))


def test_blocks_that_all_reach_everything_are_no_certainty() -> None:
    low, high = share_limits([50, 50, 50], [50, 50, 50])
    assert (float(low), float(high)) == pytest.approx((0.9757, 1.0), abs=1e-4)


def test_goodput_of_blocks_that_all_reach_everything_is_no_certainty() -> None:
    found = good_rate([50, 50, 50], [50, 50, 50], [2.0, 2.0, 2.0])
    assert (found.value, found.n) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 * 0.9757, 2.0), abs=1e-3)


def test_goodput_of_blocks_that_differ_has_at_least_their_t_interval() -> None:
    found = good_rate([40, 20, 30], [50, 50, 50], [2.0, 2.0, 2.0])
    half = float(stats.t.ppf(0.975, 2)) * 0.4 / math.sqrt(3)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= max(1.2 - half, 0) + 1e-12
    assert found.high >= 1.2 + half - 1e-12
    assert good_rate([1], [2], [4.0]).value == 2.0
    assert good_rate([], [], []).value is None
