"""Acceptance figures that others published, through our own functions (method A17: G2, G3, G4)."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.acceptance import (
    DraftCounts,
    broken_invariants,
    by_position,
    draft_counts,
    from_histogram,
    mean_length_excl,
    mean_length_incl,
)
from app.domain.observation import SpeculationCounts
from app.domain.synthetic_acceptance import conditional_of, histogram_of, length_of, rates_of
from tests.domain.evidence_factory import make_observation

DRAFTS = 1000


def steps(histogram: Sequence[int], k: int) -> SpeculationCounts:
    """One request whose steps accepted as in ``histogram``, each after drafting ``k``."""
    accepted = [tokens for tokens, count in enumerate(histogram) for _ in range(count)]
    return SpeculationCounts(
        num_spec_steps=len(accepted),
        num_draft_tokens=k * len(accepted),
        num_accepted_draft_tokens=sum(accepted),
        acceptance_histogram=tuple(histogram),
        per_step_accepted=tuple(accepted),
        per_step_drafted=(k,) * len(accepted),
    )


def test_g2_the_histogram_of_vllms_own_documentation() -> None:
    told = steps([39, 1, 0, 3], k=3)
    counts = draft_counts(make_observation("r").model_copy(update={"speculation": told}))
    assert counts == from_histogram(told.acceptance_histogram, 3) == DraftCounts(drafts=43, drafted=129, accepted=10)
    assert mean_length_incl(counts) == 1.2325581395348837
    assert mean_length_excl(counts) == 10 / 43
    assert counts.accepted / counts.drafted == 0.07751937984496124
    assert by_position([told]).unconditional == (4 / 43, 3 / 43, 3 / 43)
    assert by_position([told]).conditional == (4 / 43, 3 / 4, 1.0)


@pytest.mark.parametrize(
    ("unconditional", "length", "rate"),
    [((0.798, 0.427), "2.23", "61.3%"), ((0.018, 0.000), "1.02", "0.9%")],
    ids=["healthy", "after the corruption"],
)
def test_g3_the_log_lines_of_vllm_36872(unconditional: tuple[float, ...], length: str, rate: str) -> None:
    """The log prints positions, length and rate: two of them follow from the first."""
    told = steps(histogram_of(unconditional, DRAFTS), k=2)
    counts = DraftCounts(told.num_spec_steps, told.num_draft_tokens, told.num_accepted_draft_tokens)
    found = by_position([told])
    assert [f"{u:.3f}" for u in found.unconditional] == [f"{u:.3f}" for u in unconditional]
    mean = mean_length_incl(counts)
    assert mean is not None
    assert abs(mean - float(length)) <= 0.005 + 1e-9  # printed with two decimals
    # 61.25% is printed as 61.3%: positions are printed rounded too
    assert abs(100 * counts.accepted / counts.drafted - float(rate.rstrip("%"))) <= 0.05 + 1e-9


@pytest.mark.parametrize(("rate", "length"), [(0.5508, 2.65), (0.44, 2.32), (0.6657, 3.00)])
def test_g3_rates_and_lengths_of_vllm_42508_at_three_drafts(rate: float, length: float) -> None:
    counts = DraftCounts(10_000, 30_000, round(30_000 * rate))
    assert mean_length_incl(counts) == pytest.approx(length, abs=0.005)


@pytest.mark.parametrize(
    ("length", "k", "rates"),
    [
        (1.875, 3, (0.875, 0, 0)),
        (2.5, 3, (1, 0.5, 0)),
        (1.0, 2, (0, 0)),
        (4.0, 3, (1, 1, 1)),
    ],
)
def test_g4_a_synthetic_length_becomes_the_schedule_of_least_variance(
    length: float, k: int, rates: tuple[float, ...]
) -> None:
    assert rates_of(length, k) == rates
    assert length_of(rates) == length


def test_g4_configured_rates_come_back_with_their_length_and_conditionals() -> None:
    rates = (0.8, 0.5, 0.2)
    assert length_of(rates) == 2.5
    assert conditional_of(rates) == pytest.approx((0.8, 0.625, 0.4))
    told = steps(histogram_of(rates, DRAFTS), k=3)
    found = by_position([told])
    assert found.unconditional == rates
    assert found.conditional == pytest.approx(conditional_of(rates))
    counts = from_histogram(told.acceptance_histogram, 3)
    assert mean_length_incl(counts) == length_of(rates)
    assert counts.accepted / counts.drafted == pytest.approx(sum(rates) / 3)


def test_behind_a_position_that_is_never_accepted_nothing_is_known() -> None:
    assert conditional_of((0.875, 0.0, 0.0)) == (0.875, 0.0, None)


@pytest.mark.parametrize("length", [0.99, 4.01])
def test_a_length_that_no_schedule_has_is_refused(length: float) -> None:
    with pytest.raises(ValueError, match="not within 1 and 4"):
        rates_of(length, 3)


@given(st.integers(1, 8).flatmap(lambda k: st.tuples(st.just(k), st.floats(1, k + 1))))
def test_every_length_has_a_schedule_of_that_length_which_our_invariants_accept(case: tuple[int, float]) -> None:
    k, length = case
    rates = rates_of(length, k)
    assert length_of(rates) == pytest.approx(length)
    assert all(before >= now for before, now in pairwise(rates))
    assert sum(0 < rate < 1 for rate in rates) <= 1
    told = steps(histogram_of(rates, DRAFTS), k)
    accepted_at = [sum(n > j for n in told.per_step_accepted) for j in range(k)]
    assert not broken_invariants(from_histogram(told.acceptance_histogram, k), accepted_at, k)
