import math
from typing import Any

import numpy as np
import pytest

from app.domain.comparison import MetricComparison
from app.domain.selection import left_out_mean, selection
from tests.domain.evidence_factory import K, make_manifest


def comparisons(**ratios: list[float]) -> list[MetricComparison]:
    return [
        MetricComparison.model_construct(arm=arm, primary=True, block_ratios=tuple(values))
        for arm, values in ratios.items()
    ]


def manifest(*names: str) -> Any:
    target = {"name": "target-only", "speculation": {"method": "target_only"}}
    drafted = [
        {"name": n, "speculation": {"method": "ngram", "num_speculative_tokens": K + i}} for i, n in enumerate(names)
    ]
    return make_manifest(arms=[target, *drafted])


def test_the_best_is_looked_up_in_the_block_that_did_not_pick_it() -> None:
    found = selection(manifest("a", "b"), comparisons(a=[2.0, 1.0, 1.0], b=[1.1, 1.1, 1.1]), 3)
    assert found is not None
    assert (found.arm, found.among) == ("a", ("a", "b"))
    assert found.ratio == pytest.approx(2 ** (1 / 3))
    # Without block 1 b is best and has 1.1 there; without 2 or 3 a is, and has 1 there.
    assert found.ratio_left_out == pytest.approx(1.1 ** (1 / 3))
    assert "fresh blocks" in found.sentence


def test_one_arm_is_not_picked_and_missing_blocks_tell_nothing() -> None:
    assert selection(manifest("a"), comparisons(a=[2.0, 1.0, 1.0]), 3) is None
    assert selection(manifest("a", "b"), comparisons(a=[2.0, 1.0, 1.0], b=[1.1, 1.1]), 3) is None
    assert selection(manifest("a", "b"), comparisons(a=[2.0, 1.0], b=[1.1, 1.1]), 2) is None


def test_arms_of_which_each_lacks_a_block_are_not_laid_beside_each_other() -> None:
    """Which block it is, the ratios do not say."""
    assert selection(manifest("a", "b"), comparisons(a=[2.0, 1.0, 1.0], b=[1.1, 1.1, 1.1]), 4) is None


def test_of_arms_that_are_all_the_same_the_left_out_ratio_is_not_flattered() -> None:
    drawn = np.random.default_rng(7).normal(0, 0.05, (4000, 8, 5))
    assert math.exp(float(left_out_mean(drawn).mean())) == pytest.approx(1.0, abs=0.002)
    assert math.exp(float(drawn.mean(-1).max(-1).mean())) > 1.02


def test_nobody_picks_an_invalid_arm() -> None:
    seen = comparisons(a=[9.0, 9.0, 9.0], b=[1.1, 1.1, 1.1], c=[1.2, 1.2, 1.2])
    found = selection(manifest("a", "b", "c"), seen, 3, invalid={"a"})
    assert found is not None
    assert (found.arm, found.among) == ("c", ("b", "c"))
    assert selection(manifest("a", "b"), seen, 3, invalid={"a"}) is None
