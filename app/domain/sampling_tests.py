"""The tests of one arm's samples against target-only's, and against what the target states, prompt by prompt.

Samples of one prompt are independent, since each has a seed of its own; prompts are strata and never pooled.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from app.domain.count_tests import CountTest, fit_test, two_sample_test
from app.domain.sampled_places import Fit

SAMPLES_MIN: Final = 8
"""Samples of one prompt by each side, below which it is left out."""


class SamplingTestName(StrEnum):
    """``exact`` is against the target's own stated distribution, the others against target-only's samples."""

    FIRST_TOKEN = "first token"  # noqa: S105
    FIRST_TOKEN_EXACT = "first token, exact"  # noqa: S105
    TOKEN_PAIR = "token pair"  # noqa: S105
    LENGTH = "length"
    FINISH_REASON = "finish reason"
    LIKELIHOOD = "likelihood"
    LIKELIHOOD_EXACT = "likelihood, exact"
    TOP_CHOICE = "top choice"
    TOP_CHOICE_EXACT = "top choice, exact"


EXACT: Final = frozenset(
    {SamplingTestName.FIRST_TOKEN_EXACT, SamplingTestName.LIKELIHOOD_EXACT, SamplingTestName.TOP_CHOICE_EXACT}
)


class Sample(NamedTuple):
    """One sampled answer; ``fit`` is absent where no target-only server scored it."""

    token_ids: tuple[int, ...]
    finish_reason: str | None
    fit: Fit | None = None


Prompt = Any
"""Whatever names a prompt; its ``repr`` orders prompts."""
Samples = Mapping[Prompt, Sequence[Sample]]
"""Prompt → one side's samples of it, from all its servers."""
Stated = Mapping[Prompt, Mapping[int, float]]
"""Prompt → the target's distribution of the first token, given that it is one of the most probable."""


class Outcome(NamedTuple):
    """One test before it is seen in its family; ``p`` is ``None`` where there was nothing to compare."""

    statistic: float | None
    p: float | None
    df: int | None = None
    why: str | None = None


class Shift(NamedTuple):
    """A sum of amounts that are 0 on average under the target, and its variance."""

    total: float
    variance: float

    @property
    def z(self) -> float:
        """In standard deviations."""
        return self.total / math.sqrt(self.variance)


_Amount = Callable[[Fit], float]
_Counts = Mapping[Hashable, int]


def outcomes(ours: Samples, target: Samples, stated: Stated) -> dict[SamplingTestName, Outcome]:
    """Every test of ``ours`` against ``target``."""
    both = dict(_strata(ours, target))
    return {
        SamplingTestName.FIRST_TOKEN: _two_counts(both, lambda sample: sample.token_ids[:1]),
        SamplingTestName.TOKEN_PAIR: _two_counts(both, lambda sample: sample.token_ids[:2]),
        SamplingTestName.LENGTH: _lengths(both),
        SamplingTestName.FINISH_REASON: _two_counts(both, lambda sample: sample.finish_reason),
        SamplingTestName.LIKELIHOOD: _two_shifts(both, _surplus),
        SamplingTestName.TOP_CHOICE: _two_shifts(both, _top_surplus),
        **exact_outcomes(ours, stated),
    }


def exact_outcomes(ours: Samples, stated: Stated) -> dict[SamplingTestName, Outcome]:
    """The tests that need no samples of target-only, but its own statements; also asked of target-only itself."""
    return {
        SamplingTestName.FIRST_TOKEN_EXACT: _first_exact(ours, stated),
        SamplingTestName.LIKELIHOOD_EXACT: _exact(likelihood_shift(ours)),
        SamplingTestName.TOP_CHOICE_EXACT: _exact(_shift(ours, _top_surplus, lambda fit: fit.top_variance)),
    }


def likelihood_shift(samples: Samples) -> Shift:
    """``sum (ln p - E ln p)`` and its variance over all scored places; the quotient is about ``T/T' - 1``."""
    return _shift(samples, _surplus, lambda fit: fit.variance)


def _surplus(fit: Fit) -> float:
    return fit.surplus


def _top_surplus(fit: Fit) -> float:
    return fit.top_surplus


def _fits(samples: Samples) -> Iterator[Fit]:
    return (sample.fit for given in samples.values() for sample in given if sample.fit is not None)


def _strata(ours: Samples, target: Samples) -> Iterator[tuple[Prompt, tuple[Sequence[Sample], Sequence[Sample]]]]:
    for prompt, given in sorted(ours.items(), key=repr_of_prompt):
        theirs = target.get(prompt, ())
        if min(len(given), len(theirs)) >= SAMPLES_MIN:
            yield prompt, (given, theirs)


def repr_of_prompt(item: tuple[Prompt, object]) -> str:
    """An order of prompts that does not depend on where the evidence came from."""
    return repr(item[0])


_Strata = Mapping[Prompt, tuple[Sequence[Sample], Sequence[Sample]]]


def _two_counts(both: _Strata, what: Callable[[Sample], Hashable]) -> Outcome:
    return _counted(
        two_sample_test([(Counter(map(what, ours)), Counter(map(what, theirs))) for ours, theirs in both.values()])
    )


def _first_exact(ours: Samples, stated: Stated) -> Outcome:
    if not stated:
        return Outcome(None, None, why="the target stated no first tokens")
    strata = [
        (Counter(sample.token_ids[0] for sample in given if sample.token_ids), stated[prompt])
        for prompt, given in sorted(ours.items(), key=repr_of_prompt)
        if prompt in stated and len(given) >= SAMPLES_MIN
    ]
    return _counted(fit_test(strata))


def _counted(test: CountTest) -> Outcome:
    return Outcome(test.g, test.p, test.df, None if test.p is not None else "no prompt has two frequent values")


def _lengths(both: _Strata) -> Outcome:
    """Rank sums weighted as by van Elteren, with ties; lengths of one prompt are compared only with each other."""
    total = variance = 0.0
    for ours, theirs in both.values():
        ranks = stats.rankdata([len(sample.token_ids) for sample in (*ours, *theirs)])
        n, m = len(ours), len(theirs)
        weight = 1 / (n + m + 1)
        total += weight * float(ranks[:n].sum() - n * (n + m + 1) / 2)
        variance += weight**2 * n * m / (n + m) * float(np.var(ranks, ddof=1))
    return _normal(Shift(total, variance), "all answers to a prompt have one length")


def _two_shifts(both: _Strata, amount: _Amount) -> Outcome:
    """Difference of means within prompts, weighted by the harmonic mean of the sizes, by the variances as they are."""
    total = variance = 0.0
    for ours, theirs in both.values():
        a, b = ([amount(s.fit) for s in side if s.fit is not None] for side in (ours, theirs))
        if min(len(a), len(b)) < SAMPLES_MIN:
            continue
        weight = len(a) * len(b) / (len(a) + len(b))
        total += weight * float(np.mean(a) - np.mean(b))
        variance += weight**2 * float(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    return _normal(Shift(total, variance), "no target-only server scored both sides")


def _shift(samples: Samples, amount: _Amount, variance: _Amount) -> Shift:
    fits = list(_fits(samples))
    return Shift(math.fsum(map(amount, fits)), math.fsum(map(variance, fits)))


def _exact(shift: Shift) -> Outcome:
    return _normal(shift, "no target-only server scored these answers")


def _normal(shift: Shift, why: str) -> Outcome:
    if shift.variance <= 0:
        return Outcome(None, None, why=why)
    return Outcome(shift.z, float(2 * stats.norm.sf(abs(shift.z))))
