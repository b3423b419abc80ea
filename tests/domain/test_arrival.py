import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.arrival import ArrivalKind, arrivals
from app.domain.errors import DomainError
from app.domain.vocabulary import NS_PER_S

rates = st.floats(0.5, 50)
durations = st.integers(2, 60).map(lambda seconds: seconds * NS_PER_S)


@given(st.sampled_from(ArrivalKind), rates, durations, st.integers(0, 2**32))
def test_offsets_are_sorted_inside_the_duration_and_as_many_as_stated(
    kind: ArrivalKind, rate_rps: float, duration_ns: int, seed: int
) -> None:
    offsets = arrivals(kind, rate_rps=rate_rps, duration_ns=duration_ns, seed=seed)
    assert len(offsets) == round(rate_rps * duration_ns / NS_PER_S)
    assert list(offsets) == sorted(offsets)
    assert offsets[0] >= 0
    assert offsets[-1] < duration_ns


def test_constant_gaps_are_equal() -> None:
    assert arrivals(ArrivalKind.CONSTANT, rate_rps=4, duration_ns=NS_PER_S, seed=0) == (
        0,
        250_000_000,
        500_000_000,
        750_000_000,
    )


def test_poisson_gaps_are_exponential() -> None:
    """The mean gap is 1 / rate, and the gaps' deviation equals their mean; both within 5% at 20,000 gaps."""
    offsets = arrivals(ArrivalKind.POISSON, rate_rps=20, duration_ns=1000 * NS_PER_S, seed=1)
    gaps = [later - earlier for earlier, later in pairwise(offsets)]
    assert statistics.fmean(gaps) == pytest.approx(NS_PER_S / 20, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(statistics.fmean(gaps), rel=0.05)


def test_the_seed_decides() -> None:
    first, again, other = (
        arrivals(ArrivalKind.POISSON, rate_rps=5, duration_ns=NS_PER_S, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("rate_rps", "duration_ns", "field"), [(-1, NS_PER_S, "rate_rps"), (1, 0, "duration_ns"), (0.1, 1, "duration_ns")]
)
def test_impossible_arrivals_are_refused_by_field(rate_rps: float, duration_ns: int, field: str) -> None:
    with pytest.raises(DomainError) as refused:
        arrivals(ArrivalKind.POISSON, rate_rps=rate_rps, duration_ns=duration_ns, seed=0)
    assert refused.value.problems[0].field == field
