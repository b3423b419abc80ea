import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.finding import find, sharing
from app.domain.paired import bonferroni
from app.domain.vocabulary import VerdictWord

W = VerdictWord
CLEAR = (0.40, 0.41, 0.42, 0.40, 0.41)
LESS_CLEAR = (0.20, 0.10, 0.15, 0.21, 0.12)
SAME = (0.001, -0.001, 0.002, 0.0, -0.002)
NOISE = (0.3, -0.3, 0.1, -0.2, 0.2)


def words(members: list[tuple[float, ...]], family: int | None = None) -> list[tuple[VerdictWord, int]]:
    size = family or len(members)
    shares = sharing(members, delta=0.05, confidence=0.95, family=size)
    return [(find(m, delta=0.05, confidence=0.95, family=n).word, n) for m, n in zip(members, shares, strict=True)]


def test_the_clearest_shares_with_all_and_each_next_one_with_those_still_open() -> None:
    assert words([LESS_CLEAR, CLEAR, SAME, NOISE]) == [
        (W.HELPS, 2),
        (W.HELPS, 4),
        (W.EQUIVALENT, 3),
        (W.INCONCLUSIVE, 1),
    ]


def test_after_one_that_cannot_be_claimed_none_is_claimed_more_easily() -> None:
    shares = sharing([NOISE, NOISE, NOISE], delta=0.05, confidence=0.95, family=3)
    assert shares == (3, 3, 3)


def test_members_that_are_missing_or_undefined_count_in_the_family() -> None:
    assert words([CLEAR, (), (0.1,)], family=8)[0] == (W.HELPS, 8)
    assert sharing([(), (0.1,)], delta=0.05, confidence=0.95, family=8) == (8, 8)


def test_without_any_spread_the_claim_is_clear_unless_it_is_on_the_margin() -> None:
    on_margin = (math.log1p(0.05),) * 3
    assert sharing([(0.2, 0.2), on_margin], delta=0.05, confidence=0.95, family=2) == (2, 1)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-0.4, 0.4), min_size=3, max_size=6), min_size=1, max_size=6))
def test_holm_claims_all_that_bonferroni_claims(members: list[list[float]]) -> None:
    size = len(members)
    shares = sharing(members, delta=0.05, confidence=0.95, family=size)
    for member, share in zip(members, shares, strict=True):
        with_all = find(member, delta=0.05, confidence=0.95, family=size).word
        assert 1 <= share <= size
        assert with_all in {find(member, delta=0.05, confidence=0.95, family=share).word, W.INCONCLUSIVE}


def test_a_family_at_the_margin_is_seldom_called_equivalent() -> None:
    """Eight comparisons whose truth is the margin: each alone at 5% would claim one in a third of experiments."""
    rng = np.random.default_rng(6)
    experiments = rng.normal(math.log1p(0.05), 0.01, (80, 8, 5))
    false = sum(any(word is W.EQUIVALENT for word, _ in words([tuple(m) for m in e])) for e in experiments)
    assert false / len(experiments) < 0.13
    alone = sum(
        any(find(tuple(m), delta=0.05, confidence=0.95, family=1).word is W.EQUIVALENT for m in e) for e in experiments
    )
    assert alone / len(experiments) > 0.2


@pytest.mark.parametrize("family", [1, 4])
def test_the_limits_are_those_that_the_word_rests_on(family: int) -> None:
    found = find(SAME, delta=0.05, confidence=0.95, family=family)
    assert found.word is W.EQUIVALENT
    assert found.low is not None
    assert found.high is not None
    wide = find(NOISE, delta=0.05, confidence=0.95, family=family)
    assert wide.low is not None
    assert wide.high is not None
    assert bonferroni(0.95, family) >= 0.95
    assert found.low > 1 / 1.05
    assert found.high < 1.05
    assert wide.high - wide.low > found.high - found.low
