import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from app.domain.paired import (
    block_ratio,
    bonferroni,
    equivalent,
    holm,
    minimum_detectable_effect,
    paired_p,
)

SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
log_ratios = st.lists(st.floats(-1, 1), min_size=2, max_size=12)


def test_student_sleep_golden_p() -> None:
    assert paired_p(SLEEP) == pytest.approx(0.002833, abs=1e-6)


@pytest.mark.parametrize(("blocks", "factor"), [(3, 2.48), (4, 1.59), (5, 1.24), (6, 1.05), (8, 0.84), (10, 0.72)])
def test_half_width_factors_of_method_a4(blocks: int, factor: float) -> None:
    values = [(-1.0) ** i for i in range(blocks)]
    sd = float(stats.tstd(values))
    found = block_ratio(values)
    assert found.low is not None
    assert found.high is not None
    assert (math.log(found.high) - math.log(found.low)) / 2 / sd == pytest.approx(factor, abs=0.006)


def test_two_percent_noise_and_five_blocks_detect_three_point_four_percent() -> None:
    values = [0.02 * v for v in (-1.2649110640673518, -0.6324555320336759, 0.0, 0.6324555320336759, 1.2649110640673518)]
    assert minimum_detectable_effect(values) == pytest.approx(0.034, abs=0.001)


def test_holm_golden() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_an_undefined_p_stays_undefined_and_still_counts_in_the_family() -> None:
    assert holm([0.01, None]) == (0.02, None)
    assert holm([]) == ()


def test_equivalence_needs_the_ninety_percent_interval_inside_the_margin() -> None:
    margin = math.log1p(0.05)
    values = [0.03, 0.02, 0.01, 0.02, 0.03]
    half = stats.t.ppf(0.95, 4) * stats.tstd(values) / math.sqrt(5)
    centre = sum(values) / 5
    assert equivalent(values, centre + half + 1e-9)
    assert not equivalent(values, centre + half - 1e-9)
    assert equivalent([0.0, 0.001], margin)
    assert not equivalent([0.0], margin)


def test_one_or_no_block_gives_no_interval() -> None:
    assert block_ratio([0.1]).why == "one block"
    assert block_ratio([]).value is None
    assert paired_p([0.1]) is None
    assert minimum_detectable_effect([0.1]) is None


def test_bonferroni_splits_the_error() -> None:
    assert bonferroni(0.95, 10) == pytest.approx(0.995)
    assert bonferroni(0.95, 0) == 0.95


@given(log_ratios)
def test_order_does_not_matter_and_swapping_arms_inverts(values: list[float]) -> None:
    plain = block_ratio(values)
    swapped = block_ratio([-v for v in values])
    assert plain.value is not None
    assert swapped.value == pytest.approx(1 / plain.value)
    assert plain.low is not None
    assert swapped.high == pytest.approx(1 / plain.low)
    assert block_ratio(sorted(values)).low == pytest.approx(plain.low)
    assert paired_p([-v for v in values]) == pytest.approx(paired_p(values))


@given(log_ratios, st.floats(-0.5, 0.5))
def test_a_common_factor_moves_the_ratio_by_itself(values: list[float], shift: float) -> None:
    plain, moved = block_ratio(values), block_ratio([v + shift for v in values])
    assert plain.value is not None
    assert moved.value == pytest.approx(plain.value * math.exp(shift))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert list(holm(p_values)) == pytest.approx(np.asarray(multipletests(p_values, method="holm")[1]).tolist())
