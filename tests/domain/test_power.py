import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from app.domain.paired import equivalent
from app.domain.power import (
    blocks_needed,
    cautious,
    detectable_in_sds,
    fewest_blocks,
    power_beyond,
    power_equivalent,
)
from app.domain.statistics import t_interval


@pytest.mark.parametrize(
    ("blocks", "factor"), [(3, 3.25), (4, 2.14), (5, 1.68), (6, 1.44), (8, 1.16), (10, 0.99), (12, 0.89)]
)
def test_detectable_effects_of_method_a4(blocks: int, factor: float) -> None:
    assert detectable_in_sds(blocks) == pytest.approx(factor, abs=0.02)


@pytest.mark.parametrize(("effect", "blocks"), [(0.05, 5), (0.1, 3), (0.02, 40)])
def test_the_power_to_differ_is_statsmodels_where_the_wrong_side_is_negligible(effect: float, blocks: int) -> None:
    known = TTestPower().power(effect / 0.04, blocks, 0.05, alternative="two-sided")
    assert power_beyond(effect, 0.04, blocks) == pytest.approx(known, abs=1e-3)


def test_the_power_to_clear_the_margin_is_that_of_simulated_intervals() -> None:
    rng = np.random.default_rng(8)
    drawn = rng.normal(0.14, 0.05, (1500, 5))
    cleared = [t_interval(list(row), 0.99) for row in drawn]
    simulated = sum(limits is not None and limits.low > math.log1p(0.05) for limits in cleared) / len(drawn)
    assert power_beyond(0.14, 0.05, 5, margin=math.log1p(0.05), confidence=0.99) == pytest.approx(simulated, abs=0.04)


@pytest.mark.parametrize(("effect", "sd", "blocks"), [(0.0, 0.03, 5), (0.02, 0.02, 8), (0.0, 0.05, 3)])
def test_the_power_to_be_equivalent_is_that_of_simulated_tests(effect: float, sd: float, blocks: int) -> None:
    rng = np.random.default_rng(9)
    drawn = rng.normal(effect, sd, (1500, blocks))
    simulated = sum(equivalent(list(row), math.log1p(0.05)) for row in drawn) / len(drawn)
    assert power_equivalent(math.log1p(0.05), sd, blocks, effect=effect) == pytest.approx(simulated, abs=0.04)


@pytest.mark.parametrize("power", [0.8, 0.9])
def test_the_blocks_needed_are_the_fewest_that_reach_the_power(power: float) -> None:
    needed = blocks_needed(0.05, math.log1p(0.05), power=power)
    assert needed is not None
    assert power_beyond(math.log1p(0.05), 0.05, needed) >= power > power_beyond(math.log1p(0.05), 0.05, needed - 1)


def test_what_no_affordable_number_of_blocks_shows_is_none() -> None:
    assert blocks_needed(10.0, 0.01) is None
    assert blocks_needed(0.1, 0.0) is None
    assert blocks_needed(0.05, 0.04, margin=0.05) is None
    assert fewest_blocks(lambda n: float(n >= 17), 0.8) == 17


def test_without_noise_two_blocks_show_everything_and_one_shows_nothing() -> None:
    assert (power_beyond(0.1, 0.0, 2), power_beyond(0.1, 0.0, 1)) == (1.0, 0.0)
    assert (power_equivalent(0.05, 0.0, 2), power_equivalent(0.05, 0.0, 1)) == (1.0, 0.0)
    assert blocks_needed(0.0, 0.1) == 2


def test_a_cautious_deviation_is_exceeded_in_a_fifth_of_cases() -> None:
    rng = np.random.default_rng(4)
    seen = rng.normal(0, 1.0, (1000, 5)).std(axis=1, ddof=1)
    assert float(np.mean([cautious(float(sd), 4) < 1.0 for sd in seen])) == pytest.approx(0.2, abs=0.04)
    assert cautious(1.0, 4) == pytest.approx(math.sqrt(4 / stats.chi2.ppf(0.2, 4)))
