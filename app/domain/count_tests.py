"""G-tests of counts: against known probabilities, and between two samples; over strata their sums.

Tokens are sparse, and the chi-squared tail of a sum of sparse G is too light (at 1/1000 by two to four times): a small
p is therefore that of G's own distribution, by simulation from a fixed seed (``docs/sampling.md``).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

EXPECTED_MIN: Final = 5.0
"""Cells with a smaller expectation are pooled."""
SIMULATED_BELOW: Final = 0.05
"""The chi-squared p errs to the small side, so that one above this needs no simulation."""
SIMULATIONS: Final = 19_999
SEED: Final = 20_261_130

Counts = npt.NDArray[np.float64]


class CountTest(NamedTuple):
    """A sum of G over strata; without degrees of freedom there was nothing to compare and ``p`` is ``None``."""

    g: float
    df: int
    p: float | None


class _Stratum(NamedTuple):
    """Observed counts of one group, and what the other is compared with: probabilities, or its own counts."""

    observed: Counts
    other: Counts


def g_of(observed: Counts, expected: Counts) -> Counts:
    """``2 sum o ln(o/e)`` over the last axis."""
    ratio = np.where(observed > 0, observed, expected) / expected
    return 2 * np.sum(observed * np.log(ratio), axis=-1)


def pooled(weights: Counts, *others: Counts, least: float) -> tuple[Counts, ...]:
    """The arrays with the cells of a weight below ``least`` put into one, and that into the smallest if still below."""
    order = np.argsort(weights, kind="stable")[::-1]
    kept = int(np.count_nonzero(weights >= least))
    if kept < len(weights) and float(weights[order[kept:]].sum()) < least:
        kept = max(kept - 1, 0)
    return tuple(np.append(a[order[:kept]], a[order[kept:]].sum() if kept < len(a) else []) for a in (weights, *others))


def fit_test(strata: Sequence[tuple[Mapping[Any, int], Mapping[Any, float]]]) -> CountTest:
    """Do counts come from the stated probabilities? Counts outside of those are not looked at."""
    return _tested([s for s in (_fitted(*stratum) for stratum in strata) if len(s.observed) > 1], _fit_g, _fit_draws)


def large_fit_test(counts: Mapping[Any, int], probabilities: Mapping[Any, float]) -> CountTest:
    """As ``fit_test`` of one stratum by the chi-squared tail, for many samples; an impossible count is rejected."""
    if any(count for cell, count in counts.items() if not probabilities.get(cell)):
        return CountTest(math.inf, 1, 0.0)
    stratum = _fitted(counts, {cell: p for cell, p in probabilities.items() if p})
    df = len(stratum.observed) - 1
    if df <= 0:
        return CountTest(0.0, 0, None)
    g = float(_fit_g(stratum.observed, stratum))
    return CountTest(g, df, float(stats.chi2.sf(g, df)))


def two_sample_test(strata: Sequence[tuple[Mapping[Any, int], Mapping[Any, int]]]) -> CountTest:
    """Do two samples come from one distribution in each stratum? Exact given the margins, whatever it is."""
    return _tested([s for s in (_paired(*stratum) for stratum in strata) if len(s.observed) > 1], _pair_g, _pair_draws)


def variation_bound(cells: int, samples: int, level: float) -> float:
    """``1/2 sqrt((K-1)/n) + sqrt(ln(1/level)/(2n))``: the total variation of counts from their truth, at most."""
    return 0.5 * math.sqrt((cells - 1) / samples) + math.sqrt(math.log(1 / level) / (2 * samples))


def detectable_ncp(df: int, level: float, power: float) -> float:
    """The noncentrality that a chi-squared test at ``level`` sees with ``power``."""
    limit = float(stats.chi2.isf(level, df))

    def lacking(ncp: float) -> float:
        return float(stats.ncx2.sf(limit, df, ncp)) - power

    highest = 2 * limit + 100.0
    return float(optimize.brentq(lacking, 1e-9, highest))  # pyright: ignore[reportUnknownMemberType, reportArgumentType]


def detectable_variation(df: int, samples: float, level: float, power: float) -> float:
    """A total variation that is seen with ``power`` whatever its shape: ``chi2 divergence >= 4 TV^2``."""
    return min(1.0, 0.5 * math.sqrt(detectable_ncp(df, level, power) / samples))


def _fitted(counts: Mapping[Any, int], probabilities: Mapping[Any, float]) -> _Stratum:
    cells = sorted(probabilities)
    observed = np.array([counts.get(cell, 0) for cell in cells], dtype=np.float64)
    stated = np.array([probabilities[cell] for cell in cells], dtype=np.float64)
    stated = stated / stated.sum()
    expected, observed = pooled(stated * observed.sum(), observed, least=EXPECTED_MIN)
    return _Stratum(observed, expected / max(expected.sum(), 1.0))


def _paired(first: Mapping[Any, int], second: Mapping[Any, int]) -> _Stratum:
    cells = sorted(first.keys() | second.keys(), key=repr)
    a = np.array([first.get(cell, 0) for cell in cells], dtype=np.float64)
    b = np.array([second.get(cell, 0) for cell in cells], dtype=np.float64)
    if not a.sum() or not b.sum():
        return _Stratum(np.zeros(0), np.zeros(0))
    share = min(a.sum(), b.sum()) / (a.sum() + b.sum())
    _, a, b = pooled((a + b) * share, a, b, least=EXPECTED_MIN)
    return _Stratum(a, b)


def _fit_g(observed: Counts, stratum: _Stratum) -> Counts:
    return g_of(observed, stratum.other * stratum.observed.sum())


def _pair_g(observed: Counts, stratum: _Stratum) -> Counts:
    totals = stratum.observed + stratum.other
    share = stratum.observed.sum() / totals.sum()
    return g_of(observed, totals * share) + g_of(totals - observed, totals * (1 - share))


def _fit_draws(stratum: _Stratum, chance: np.random.Generator) -> Counts:
    return chance.multinomial(int(stratum.observed.sum()), stratum.other, SIMULATIONS).astype(np.float64)


def _pair_draws(stratum: _Stratum, chance: np.random.Generator) -> Counts:
    """The first sample's counts where labels are dealt anew."""
    colors = (stratum.observed + stratum.other).astype(np.int64)
    drawn = int(stratum.observed.sum())
    return chance.multivariate_hypergeometric(colors, drawn, SIMULATIONS, method="marginals").astype(np.float64)


def _tested(strata: Sequence[_Stratum], g: Any, draws: Any) -> CountTest:
    df = sum(len(stratum.observed) - 1 for stratum in strata)
    if df == 0:
        return CountTest(0.0, 0, None)
    total = float(sum(g(stratum.observed, stratum) for stratum in strata))
    p = float(stats.chi2.sf(total, df))
    if p >= SIMULATED_BELOW:
        return CountTest(total, df, p)
    chance = np.random.default_rng(SEED)
    simulated = sum((g(draws(stratum, chance), stratum) for stratum in strata), np.zeros(SIMULATIONS))
    at_least = int(np.count_nonzero(simulated >= total - 1e-9))
    return CountTest(total, df, (1 + at_least) / (1 + SIMULATIONS))
