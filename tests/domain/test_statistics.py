import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.statistics import (
    QUANTILE_METHOD,
    mean_over_blocks,
    proportion,
    quantile,
    quantile_over_runs,
    t_interval,
)

latencies = st.lists(st.floats(0.1, 1e5), min_size=3, max_size=60)


def test_tail_quantiles_are_shown_only_from_the_display_gate_on() -> None:
    assert quantile_over_runs([[1.0] * 99], 0.95, "ms").value is None
    assert quantile_over_runs([[1.0] * 50] * 2, 0.95, "ms").value == 1.0
    hidden = quantile_over_runs([[1.0] * 499], 0.99, "ms")
    assert hidden.value is None
    assert hidden.why == "needs 500 served requests, has 499"


def test_failed_requests_count_as_slowest() -> None:
    assert quantile([1.0, 2.0, 3.0, math.inf], 0.5) == pytest.approx(2.5)
    assert quantile([1.0, math.inf, math.inf, math.inf], 0.5) == math.inf
    assert quantile([], 0.5) is None
    lost = quantile_over_runs([[1.0, 1.0, 1.0], [1.0, math.inf, math.inf]], 0.5, "ms")
    assert lost.value is None
    assert "offered requests failed" in (lost.why or "")


def test_the_typical_run_s_quantile_has_the_t_interval_of_the_runs_logarithms() -> None:
    logs = [0.0, 0.2, 0.7]
    found = quantile_over_runs([[0.1, math.exp(log), 100.0] for log in logs], 0.5, "ms")
    assert (found.n, found.value) == (3, pytest.approx(math.exp(0.3)))
    assert found.low == pytest.approx(math.exp((t_interval(logs, 0.95) or (0, 0))[0]))
    assert quantile_over_runs([[2.0, 3.0, 4.0]], 0.5, "ms").why == "one block"


def test_a_quantile_of_nothing_waited_has_no_logarithm_and_is_a_plain_mean() -> None:
    assert quantile_over_runs([[0.0] * 3, [1.0] * 3], 0.5, "ms").value == 0.5
    assert quantile_over_runs([[], [1.0]], 0.5, "ms").value == 1.0


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


def test_clopper_pearson_of_no_mismatch_in_a_hundred() -> None:
    matched = proportion(100, 100, "share", "nothing")
    assert matched.high == 1.0
    assert 1 - (matched.low or 0) == pytest.approx(0.0362, abs=1e-4)
    assert proportion(0, 0, "share", "nothing").why == "nothing"


def test_one_block_has_a_value_and_no_interval() -> None:
    one = mean_over_blocks([5.0], "s")
    assert (one.value, one.low, one.why) == (5.0, None, "one block")
    assert mean_over_blocks([], "s").value is None


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40), st.floats(0.001, 0.999))
def test_a_quantile_is_numpys_to_the_last_digits(values: list[float], q: float) -> None:
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q, method=QUANTILE_METHOD)), rel=1e-12)
