"""Do an arm's sampled answers come from the target's distribution? All tests of all arms as one family, and one word.

The family is held by Holm at ``FAMILY_ERROR``. Nothing passes unless the same tests reject another temperature.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict
from scipy import stats

from app.domain.count_tests import detectable_variation
from app.domain.paired import holm
from app.domain.sampling_tests import (
    EXACT,
    Outcome,
    Samples,
    SamplingTestName,
    Shift,
    Stated,
    exact_outcomes,
    likelihood_shift,
    outcomes,
)

FAMILY_ERROR: Final = 0.01
"""How often an experiment whose arms all sample rightly may be accused, over all its arms and tests."""
POWER: Final = 0.9
HOTTER: Final = 1.1
"""The negative control samples at so many times the experiment's temperature."""
SHARE_MIN: Final = 0.75
"""An arm with a smaller share of the control's samples has not been shown to be one that would be noticed."""
LIMITS: Final = 1.96
"""Of the interval of the temperature, in standard errors."""


class SamplingWord(StrEnum):
    """What the tests say together."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    NOT_CHECKABLE = "not checkable"


class SamplingTest(BaseModel):
    """One test; ``p`` is ``None`` where there was nothing to compare, and ``why`` then says so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: SamplingTestName
    statistic: float | None
    """G where there are degrees of freedom, else in standard deviations."""
    df: int | None
    p: float | None
    p_adjusted: float | None
    """Holm-adjusted over the experiment's family."""
    rejected: bool
    why: str | None


class SampledEquality(BaseModel):
    """One arm against target-only at the experiment's own sampling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    word: SamplingWord
    reasons: tuple[str, ...]
    prompts: int
    samples: int
    target_samples: int
    places: int
    """Tokens of the arm whose place a target-only server stated."""
    tests: tuple[SamplingTest, ...]
    family: int
    family_error: float
    temperature_ratio: float | None
    """What the likelihoods say that the arm sampled at, relative to the temperature asked for."""
    temperature_low: float | None
    temperature_high: float | None
    detectable_temperature: float | None
    """The least ratio above 1 that these tests notice 9 times in 10."""
    detectable_variation: float | None
    """A total variation of the first token that they notice 9 times in 10, whatever its shape."""
    control_p: float | None
    """Least p of the control at another temperature, times the family; a pass needs it below the family's error."""


class _Family:
    """What all arms of an experiment share."""

    def __init__(
        self, arms: int, target: Samples, stated: Stated, hotter: Samples | None, *, family_error: float
    ) -> None:
        self.target, self.stated, self.error = target, stated, family_error
        self.size = arms * len(SamplingTestName)
        self.level = family_error / max(self.size, 1)
        own = exact_outcomes(target, stated)
        self.unfit = frozenset(name for name, found in own.items() if found.p is not None and found.p < self.level)
        self.control_p = None if hotter is None else self._least_p(hotter)
        self.control_samples = 0 if hotter is None else sum(map(len, hotter.values()))

    def outcomes(self, samples: Samples) -> dict[SamplingTestName, Outcome]:
        """The tests in their declared order; what does not hold for target-only itself accuses nobody else."""
        found = outcomes(samples, self.target, self.stated)
        lost = Outcome(None, None, why="target-only's own samples do not fit what it states")
        return {name: lost if name in self.unfit else found[name] for name in SamplingTestName}

    def _least_p(self, hotter: Samples) -> float | None:
        found = [outcome.p for outcome in self.outcomes(hotter).values() if outcome.p is not None]
        return min(1.0, min(found) * self.size) if found else None


def judge_samples(
    arms: Mapping[str, Samples],
    target: Samples,
    hotter: Samples | None = None,
    stated: Stated | None = None,
    *,
    family_error: float = FAMILY_ERROR,
) -> tuple[SampledEquality, ...]:
    """One ``SampledEquality`` per arm. ``hotter`` is target-only at ``HOTTER`` times the experiment's temperature."""
    family = _Family(len(arms), target, stated or {}, hotter, family_error=family_error)
    found = {arm: family.outcomes(samples) for arm, samples in arms.items()}
    adjusted = iter(holm([outcome.p for of_arm in found.values() for outcome in of_arm.values()]))
    return tuple(
        _equality(arm, arms[arm], family, _tests(of_arm, adjusted, family_error)) for arm, of_arm in found.items()
    )


def _tests(
    found: Mapping[SamplingTestName, Outcome], adjusted: Iterator[float | None], error: float
) -> tuple[SamplingTest, ...]:
    return tuple(
        SamplingTest(
            name=name,
            statistic=outcome.statistic,
            df=outcome.df,
            p=outcome.p,
            p_adjusted=q,
            rejected=q is not None and q < error,
            why=outcome.why,
        )
        for (name, outcome), q in zip(found.items(), adjusted, strict=False)
    )


def _equality(arm: str, samples: Samples, family: _Family, tests: tuple[SamplingTest, ...]) -> SampledEquality:
    shift = _likelihood(samples, family)
    delta = None if shift is None else shift.total / shift.variance
    error = None if shift is None else 1 / math.sqrt(shift.variance)
    word, reasons = _word(arm, sum(map(len, samples.values())), tests, family)
    return SampledEquality(
        arm=arm,
        word=word,
        reasons=reasons,
        prompts=len(samples),
        samples=sum(map(len, samples.values())),
        target_samples=sum(map(len, family.target.values())),
        places=sum(sample.fit.places for given in samples.values() for sample in given if sample.fit),
        tests=tests,
        family=family.size,
        family_error=family.error,
        temperature_ratio=_ratio(delta),
        temperature_low=None if delta is None or error is None else _ratio(delta + LIMITS * error),
        temperature_high=None if delta is None or error is None else _ratio(delta - LIMITS * error),
        detectable_temperature=None if error is None else _ratio(-_detectable(family.level) * error),
        detectable_variation=_variation(samples, family, tests),
        control_p=family.control_p,
    )


def _likelihood(samples: Samples, family: _Family) -> Shift | None:
    """``delta = S/V`` estimates ``T/T' - 1`` with variance 1/V; against target-only's own where that does not fit."""
    ours, theirs = likelihood_shift(samples), likelihood_shift(family.target)
    if ours.variance <= 0:
        return None
    if SamplingTestName.LIKELIHOOD_EXACT not in family.unfit:
        return ours
    if theirs.variance <= 0:
        return None
    both = 1 / (1 / ours.variance + 1 / theirs.variance)
    return Shift((ours.total / ours.variance - theirs.total / theirs.variance) * both, both)


def _ratio(delta: float | None) -> float | None:
    """``T'/T``; no temperature is so high that it were reached at -1."""
    return None if delta is None or delta <= -1 else 1 / (1 + delta)


def _detectable(level: float) -> float:
    """Standard errors that a two-sided test at ``level`` sees with ``POWER``."""
    return float(stats.norm.isf(level / 2) + stats.norm.isf(1 - POWER))


def _variation(samples: Samples, family: _Family, tests: tuple[SamplingTest, ...]) -> float | None:
    df = next(test.df for test in tests if test.name is SamplingTestName.FIRST_TOKEN)
    n, m = sum(map(len, samples.values())), sum(map(len, family.target.values()))
    return detectable_variation(df, n * m / (n + m), family.level, POWER) if df else None


def _word(
    arm: str, samples: int, tests: tuple[SamplingTest, ...], family: _Family
) -> tuple[SamplingWord, tuple[str, ...]]:
    rejected = [f"{test.name} (adjusted p {test.p_adjusted:.2g})" for test in tests if test.rejected]
    if rejected:
        words = f"sampled answers of {arm} are not distributed as target-only's: {', '.join(rejected)}"
        return SamplingWord.FAIL, (words,)
    lacking = tuple(_lacking(samples, tests, family))
    return (SamplingWord.NOT_CHECKABLE if lacking else SamplingWord.PASS), (*lacking, *_notes(family))


def _lacking(samples: int, tests: tuple[SamplingTest, ...], family: _Family) -> Iterator[str]:
    if all(test.p is None for test in tests):
        yield "too few samples of a prompt by both sides for any test"
    elif family.control_p is None:
        yield "there is no control at another temperature, so the tests have not shown that they can reject"
    elif family.control_p >= family.error:
        yield (
            f"the control at {HOTTER:g} times the temperature was not told apart (adjusted p {family.control_p:.2g}): "
            "these samples could not show a difference"
        )
    elif samples < SHARE_MIN * family.control_samples:
        yield f"{samples} samples are too few beside the control's {family.control_samples}"


def _notes(family: _Family) -> Iterator[str]:
    for name in sorted(family.unfit & EXACT):
        yield f"the test {name!r} was left out: target-only's own samples do not fit what it states"
