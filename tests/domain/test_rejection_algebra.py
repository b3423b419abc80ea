"""Rejection sampling in exact fractions, with the golden numbers of method A14 and G1, and its four mutants."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.domain import rejection_algebra as algebra
from app.domain.rejection_algebra import Distribution

P = (Fraction(1, 2), Fraction(3, 10), Fraction(3, 20), Fraction(1, 20))
Q = (Fraction(1, 5), Fraction(3, 10), Fraction(2, 5), Fraction(1, 10))
ARGMAX = 2
SAMPLES_FOR_MUTANT = 663


def _distributions(size: int) -> st.SearchStrategy[Distribution]:
    weights = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
    return weights.map(lambda drawn: tuple(Fraction(weight, sum(drawn)) for weight in drawn))


def test_worked_example() -> None:
    assert algebra.alpha(P, Q) == Fraction(7, 10) == 1 - algebra.total_variation(P, Q)
    assert algebra.residual(P, Q) == (1, 0, 0, 0)
    assert algebra.standard_output(P, Q) == P


@given(_distributions(5), _distributions(5))
def test_output_is_the_target(p: Distribution, q: Distribution) -> None:
    assert algebra.standard_output(p, q) == p
    assert algebra.alpha(p, q) == 1 - algebra.total_variation(p, q)


@given(_distributions(4), st.integers(0, 3))
def test_certain_draft(p: Distribution, drafted: int) -> None:
    """Ngram, suffix and greedy drafts: accepted as often as the target would choose them."""
    q = algebra.one_hot(drafted, len(p))
    assert algebra.certain_output(p, drafted) == p
    assert algebra.alpha(p, q) == p[drafted]
    if p[drafted] < 1:
        assert algebra.residual(p, q)[drafted] == 0


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_several_positions(k: int) -> None:
    """A step of k drafts, its recovered token and its bonus token put out what the target alone does, jointly."""

    def target(context: tuple[int, ...]) -> Distribution:
        weights = [1 + (3 * token + sum(context) + len(context)) % 5 for token in range(3)]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    def draft(context: tuple[int, ...]) -> Distribution:
        weights = [(2 * token + sum(context)) % 4 for token in range(3)]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    assert algebra.sequence_output(target, draft, k, 3) == algebra.direct_output(target, 3, 3)


@pytest.mark.parametrize(
    ("rate", "k", "tokens"),
    [("0.6", 2, "1.96"), ("0.7", 3, "2.53"), ("0.8", 2, "2.44"), ("0.8", 5, "3.69"), ("0.9", 10, "6.86")],
)
def test_published_tokens_per_step(rate: str, k: int, tokens: str) -> None:
    """Leviathan et al. 2023, table 1 (no cost of drafting)."""
    assert round(float(algebra.expected_tokens(Fraction(rate), k)), 2) == float(tokens)


def _resamples_from_target() -> Distribution:
    return algebra.output(Q, algebra.accepts(P, Q), P)


def _always_accepts() -> Distribution:
    return algebra.output(Q, lambda _: Fraction(1), P)


def _argmax_draft_with_ratio() -> Distribution:
    """The draft proposes its argmax, and is accepted as if that had been sampled from q."""
    return algebra.output(algebra.one_hot(ARGMAX, 4), algebra.accepts(P, Q), algebra.residual(P, Q))


def _sampled_draft_as_certain() -> Distribution:
    """The draft is sampled, and verified as if it had been certain: accepted at p(x), replaced from p without x."""
    kept = [Q[x] * P[x] for x in range(4)]
    again = [algebra.residual(P, algebra.one_hot(x, 4)) for x in range(4)]
    return tuple(kept[y] + sum(Q[x] * (1 - P[x]) * again[x][y] for x in range(4)) for y in range(4))


def _sampled_draft_with_ratio_of_a_certain_one() -> Distribution:
    """The fourth mutant: accepted at p(x) as if certain, and replaced from the residual of q."""
    return algebra.output(Q, lambda token: P[token], algebra.residual(P, Q))


MUTANTS = {
    "resamples from p": (_resamples_from_target, "7/20 39/100 39/200 13/200", Fraction(3, 20), Fraction(9, 100)),
    "always accepts": (_always_accepts, "1/5 3/10 2/5 1/10", Fraction(3, 10), Fraction(97, 150)),
    "argmax draft, ratio p/q": (_argmax_draft_with_ratio, "5/8 0 3/8 0", Fraction(7, 20), Fraction(23, 32)),
    "sampled draft, ratio of a certain one": (
        _sampled_draft_with_ratio_of_a_certain_one,
        "169/200 9/100 3/50 1/200",
        Fraction(69, 200),
        Fraction(9591, 20000),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_told_apart(name: str) -> None:
    mutant, text, distance, ncp = MUTANTS[name]
    out = mutant()
    assert out == tuple(map(Fraction, text.split()))
    assert algebra.total_variation(P, out) == distance
    assert algebra.noncentrality(P, out) == ncp


def test_sampled_draft_verified_as_certain_loses_nothing_where_each_x_has_its_own_residual() -> None:
    """Verified with its own token's residual even a sampled draft is lossless: it only accepts less."""
    assert _sampled_draft_as_certain() == P


def _power(ncp_per_sample: float, samples: int, level: float = 1e-6, cells: int = 4) -> float:
    limit = stats.chi2.isf(level, cells - 1)
    return float(stats.ncx2.sf(limit, cells - 1, ncp_per_sample * samples))


def test_samples_that_kill_the_weakest_mutant() -> None:
    """In a G-test, 663 samples see a resampling from p 99 times in 100 at one false alarm in a million (method A14)."""
    ncp = float(algebra.noncentrality(P, _resamples_from_target()))
    assert ncp == pytest.approx(0.09)
    assert _power(ncp, SAMPLES_FOR_MUTANT) >= 0.99 > _power(ncp, SAMPLES_FOR_MUTANT - 10)


@pytest.mark.parametrize(("ncp", "samples"), [(0.01, 6_036), (0.005, 11_959), (0.001, 59_872)])
def test_published_sizes(ncp: float, samples: int) -> None:
    assert _power(ncp, samples) >= 0.99 > _power(ncp, round(samples * 0.98))
