"""How the verification's benchmark draws its comparisons and what it calls SHORT."""

import random

import pytest

from app.domain.sampling_tests import Sample, Samples
from benchmarks.verification.pools import part, parted
from benchmarks.verification.rows import Part, Row, Share, alarms, caught


def pool(first: int) -> Samples:
    return {p: [Sample((first + i,), "stop") for i in range(10)] for p in ("a", "b")}


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    assert Share(0, 200).interval == pytest.approx((0.0, 0.01828), abs=1e-5)  # 1 - 0.025 ** (1 / 200)
    assert Share(4, 20).interval == pytest.approx((0.0573, 0.4366), abs=1e-4)  # a textbook's


@pytest.mark.parametrize(("hits", "word"), [(0, "ok"), (2, "ok"), (5, "ok"), (9, "SHORT")])
def test_more_false_alarms_than_the_declared_rate_explains_are_short(hits: int, word: str) -> None:
    assert alarms("what", Share(hits, 200), 0.01).word == word


@pytest.mark.parametrize(("hits", "word"), [(20, "ok"), (18, "ok"), (10, "SHORT"), (0, "SHORT")])
def test_too_little_power_is_short(hits: int, word: str) -> None:
    assert caught("what", Share(hits, 20), 0.9).word == word


def test_a_part_holds_nothing_twice_and_both_parts_hold_nothing_in_common() -> None:
    ours, theirs = parted(pool(0), pool(10), 8, random.Random(1))
    for prompt in ("a", "b"):
        drawn = [sample.token_ids[0] for sample in (*ours[prompt], *theirs[prompt])]
        assert len(ours[prompt]) == len(theirs[prompt]) == 8
        assert len(set(drawn)) == 16
    assert any(sample.token_ids[0] >= 10 for sample in ours["a"])  # who gave an answer is dealt anew
    assert [len(given) for given in part(pool(0), 20, random.Random(1)).values()] == [10, 10]


def test_the_markdown_has_every_cell() -> None:
    text = Part("title", [Row("a | b", "1 < 2", "bar", met=False), Row("c", "d")]).markdown()
    assert "| a \\| b | 1 &lt; 2 | bar | SHORT |" in text
    assert "| c | d |  |  |" in text
