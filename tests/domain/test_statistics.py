import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.statistics import (
    attainment,
    mean_over_blocks,
    proportion,
    quantile,
    quantile_estimate,
    quantile_ranks,
    ratio_of_totals,
    t_interval,
)

latencies = st.lists(st.floats(0.1, 1e5), min_size=3, max_size=60)


@pytest.mark.parametrize(
    ("n", "q", "ranks"),
    [
        (1000, 0.50, (469, 532)),
        (1000, 0.95, (936, 964)),
        (1000, 0.99, (983, 997)),
        (300, 0.99, (293, None)),
    ],
)
def test_order_statistic_ranks_match_method_a5(n: int, q: float, ranks: tuple[int, int | None]) -> None:
    assert quantile_ranks(n, q) == ranks


@pytest.mark.parametrize(("q", "least"), [(0.95, 72), (0.99, 368)])
def test_an_upper_limit_needs_enough_requests(q: float, least: int) -> None:
    assert quantile_ranks(least - 1, q)[1] is None
    assert quantile_ranks(least, q)[1] is not None


def test_tail_quantiles_are_shown_only_from_the_display_gate_on() -> None:
    assert quantile_estimate([1.0] * 99, 0.95, "ms").value is None
    assert quantile_estimate([1.0] * 100, 0.95, "ms").value == 1.0
    hidden = quantile_estimate([1.0] * 499, 0.99, "ms")
    assert hidden.value is None
    assert hidden.why == "needs 500 served requests, has 499"


def test_failed_requests_count_as_slowest() -> None:
    assert quantile([1.0, 2.0, 3.0, math.inf], 0.5) == pytest.approx(2.5)
    assert quantile([1.0, math.inf, math.inf, math.inf], 0.5) == math.inf
    assert quantile([], 0.5) is None
    lost = quantile_estimate([1.0, math.inf, math.inf], 0.5, "ms")
    assert lost.value is None
    assert "offered requests failed" in (lost.why or "")


@given(latencies, st.floats(0.1, 100), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_scales_and_ignores_order(values: list[float], factor: float, q: float) -> None:
    plain = quantile(values, q)
    assert plain is not None
    assert quantile([v * factor for v in values], q) == pytest.approx(plain * factor)
    assert quantile(list(reversed(values)), q) == plain
    assert min(values) <= plain <= max(values)


def test_student_sleep_golden_interval() -> None:
    difference = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    assert t_interval(difference, 0.95) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)


def test_no_drafts_is_undefined_never_zero() -> None:
    nothing = ratio_of_totals([0, 0], [0, 0], "share")
    assert nothing.value is None
    assert nothing.why == "no drafts proposed"


def test_the_ratio_is_of_totals_not_a_mean_of_ratios() -> None:
    assert ratio_of_totals([1, 90], [10, 100], "share").value == pytest.approx(91 / 110)


def test_linearised_interval_matches_its_formula() -> None:
    rng = np.random.default_rng(3)
    drafted = rng.integers(4, 40, 50)
    accepted = rng.binomial(drafted, 0.6)
    ratio = accepted.sum() / drafted.sum()
    error = math.sqrt(50 / 49 * ((accepted - ratio * drafted) ** 2).sum()) / drafted.sum()
    found = ratio_of_totals(list(accepted), list(drafted), "share")
    assert found.low == pytest.approx(ratio - 2.0095752 * error)
    assert found.high == pytest.approx(ratio + 2.0095752 * error)


def test_few_clusters_are_bootstrapped_reproducibly() -> None:
    accepted, drafted = [3, 8, 2, 9, 5, 7], [10, 10, 10, 12, 9, 10]
    first, again = (ratio_of_totals(accepted, drafted, "share") for _ in range(2))
    assert first == again
    assert "BCa" in first.source
    assert first.low is not None
    assert first.high is not None
    assert first.low < 34 / 61 < first.high


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


def test_clopper_pearson_of_no_mismatch_in_a_hundred() -> None:
    matched = proportion(100, 100, "share", "nothing")
    assert matched.high == 1.0
    assert 1 - (matched.low or 0) == pytest.approx(0.0362, abs=1e-4)
    assert proportion(0, 0, "share", "nothing").why == "nothing"


def test_one_block_has_a_value_and_no_interval() -> None:
    one = mean_over_blocks([5.0], "s")
    assert (one.value, one.low, one.why) == (5.0, None, "one block")
    assert mean_over_blocks([], "s").value is None


def test_attainment_is_over_offered_and_holds_its_value() -> None:
    everything = attainment([10, 10, 10], [10, 10, 10])
    assert everything.value == everything.high == 1.0
    half = attainment([4, 5, 6], [10, 10, 10])
    assert half.value == 0.5
    assert half.low is not None
    assert half.low < 0.5
