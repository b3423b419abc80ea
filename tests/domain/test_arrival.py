import statistics
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.arrival import ArrivalKind, arrivals, gap_variation, recorded, scaled
from app.domain.errors import DomainError
from app.domain.rate_curve import PointProcess
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


GOLDEN = {
    ArrivalKind.CONSTANT: (0, 500000000, 1000000000, 1500000000, 2000000000, 2500000000),
    ArrivalKind.POISSON: (207388624, 311111475, 647892279, 1390851128, 1695753998, 2795742288),
    ArrivalKind.GAMMA: (569491137, 612264229, 887560171, 1278050460, 1711965231, 2979428963),
    ArrivalKind.RAMP: (164234943, 250533951, 309951622, 615650383, 1212301585, 1344375761),
}
"""Written down once: the same integers from every Python."""


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_integers_are_the_same_in_every_python(kind: ArrivalKind) -> None:
    found = arrivals(kind, rate_rps=2, duration_ns=3 * NS_PER_S, seed=7, burstiness=0.5, end_rate_rps=4)
    assert found[:6] == GOLDEN[kind]


@pytest.mark.parametrize(("burstiness", "variation"), [(0.25, 2.0), (0.5, 1.414), (1.0, 1.0), (4.0, 0.5)])
def test_gamma_gaps_vary_as_burstiness_says(burstiness: float, variation: float) -> None:
    """The gaps of Gamma(shape k) have the coefficient of variation 1 / sqrt(k); within 6% at 20,000 gaps."""
    offsets = arrivals(ArrivalKind.GAMMA, rate_rps=20, duration_ns=1000 * NS_PER_S, seed=3, burstiness=burstiness)
    assert gap_variation(offsets) == pytest.approx(variation, rel=0.06)
    assert len(offsets) == 20_000


def test_a_ramp_offers_as_much_as_its_rates_say_at_every_time() -> None:
    """From 0 to 40/s in 100 s: a quarter of the 2,000 requests falls into the first half."""
    offsets = arrivals(ArrivalKind.RAMP, rate_rps=0, duration_ns=100 * NS_PER_S, seed=5, end_rate_rps=40)
    early = sum(offset < 50 * NS_PER_S for offset in offsets)
    assert len(offsets) == 2_000
    assert early == pytest.approx(500, abs=80)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.integers(0, 10**12))
def test_recorded_times_keep_their_gaps(times: list[int], later: int) -> None:
    offsets = recorded(times)
    assert offsets[0] == 0
    assert list(offsets) == sorted(offsets)
    assert recorded([at + later for at in times]) == offsets
    assert offsets[-1] == max(times) - min(times)


@given(st.lists(st.integers(0, 10**12), min_size=3, max_size=50), st.floats(0.1, 10))
def test_scaling_changes_the_rate_and_keeps_the_bursts(times: list[int], speed: float) -> None:
    offsets = recorded(times)
    faster = scaled(offsets, speed)
    assert list(faster) == sorted(faster)
    assert all(abs(fast * speed - slow) <= speed + 1e-3 for fast, slow in zip(faster, offsets, strict=True))


def test_scaling_keeps_the_variation_of_the_gaps() -> None:
    offsets = arrivals(ArrivalKind.GAMMA, rate_rps=50, duration_ns=100 * NS_PER_S, seed=1, burstiness=0.3)
    assert gap_variation(scaled(offsets, 7.5)) == pytest.approx(gap_variation(offsets) or 0, rel=1e-6)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(DomainError, match="speed"):
        scaled((0, 1), speed)


@pytest.mark.parametrize("burstiness", [0.0, -1.0, 1e9, float("nan")])
def test_an_impossible_burstiness_is_refused(burstiness: float) -> None:
    with pytest.raises(DomainError, match="burstiness"):
        arrivals(ArrivalKind.GAMMA, rate_rps=1, duration_ns=NS_PER_S, seed=0, burstiness=burstiness)


@pytest.mark.parametrize("offsets", [(), (5,), (5, 5), (5, 5, 5)])
def test_without_gaps_there_is_no_variation(offsets: tuple[int, ...]) -> None:
    assert gap_variation(offsets) is None


@given(st.floats(0.2, 40), st.floats(0.2, 40), st.integers(0, 2**32))
def test_a_lower_rate_takes_its_arrivals_from_those_of_a_higher(one: float, other: float, seed: int) -> None:
    duration_ns = 10 * NS_PER_S
    process = PointProcess(
        arrivals(ArrivalKind.GAMMA, rate_rps=8, duration_ns=duration_ns, seed=seed, burstiness=0.4), duration_ns, seed
    )
    slow, fast = (process.at_rate(rate) for rate in sorted((one, other)))
    assert len(slow) == round(min(one, other) * 10)
    assert len(fast) == round(max(one, other) * 10)
    assert not Counter(slow) - Counter(fast)
    assert list(fast) == sorted(fast)
    assert fast[-1] < duration_ns


def test_at_its_own_rate_a_process_is_itself() -> None:
    offsets = arrivals(ArrivalKind.POISSON, rate_rps=8, duration_ns=10 * NS_PER_S, seed=2)
    process = PointProcess(offsets, 10 * NS_PER_S, seed=4)
    assert process.at_rate(process.rate_rps) == offsets
    assert set(offsets) <= set(process.at_rate(20))
    assert process.at_rate(20) == PointProcess(offsets, 10 * NS_PER_S, seed=4).at_rate(20)
    assert process.at_rate(5) != PointProcess(offsets, 10 * NS_PER_S, seed=5).at_rate(5)


@pytest.mark.parametrize("offsets", [(), (-1,), (NS_PER_S,)])
def test_a_process_without_points_inside_its_duration_is_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="offsets_ns"):
        PointProcess(offsets, NS_PER_S, 0)


@pytest.mark.parametrize("rate_rps", [0.0, -1.0, 0.01])
def test_a_rate_without_arrivals_is_refused(rate_rps: float) -> None:
    with pytest.raises(DomainError, match="rate_rps"):
        PointProcess((0, 5), NS_PER_S, 0).at_rate(rate_rps)
