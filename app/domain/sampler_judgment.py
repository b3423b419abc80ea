"""Does an engine's rejection sampler put out the target's distribution? From counts, by assertion (method A14).

Every assertion has its own negative control: the same counts must be rejected where the target is expected at another
temperature. What its control does not reject is not checkable, never a pass.
"""

import ast
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from app.domain.count_tests import CountTest, detectable_ncp, large_fit_test, variation_bound
from app.domain.sampler_truth import SHIFTED, SamplerCase, greedy_output, outcome_row, pair_row, target_row

LEVEL: Final = 1e-6
"""Probability that one assertion accuses a right sampler."""
POWER: Final = 0.99

Expected = Mapping[Any, float]
Counted = Mapping[Any, int]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseCounts(_Frozen):
    """What the driving script counted over the sampled rows of a case."""

    outcome: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """By place: recovered and accepted tokens, by token."""
    bonus: tuple[int, ...]
    pairs: tuple[tuple[tuple[int, ...], ...], ...]
    """By place: an accepted token and the one after it."""
    greedy: dict[str, int] = {}
    """Drafted and put out tokens of greedy rows → how often."""


class AssertionOutcome(StrEnum):
    """``NOT_CHECKABLE``: the counts could not have shown a difference."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    NOT_CHECKABLE = "not checkable"


class Assertion(_Frozen):
    """One claim about the output of one case."""

    case: str
    claim: str
    outcome: AssertionOutcome
    samples: int
    g: float | None = None
    df: int | None = None
    p: float | None = None
    variation: float | None = None
    """Total variation of the counts from what is expected."""
    variation_bound: float | None = None
    detectable_ncp: float | None = None
    """The chi-squared divergence per sample that is noticed 99 times in 100."""
    control_p: float | None = None
    words: str = ""


def judge_case(case: SamplerCase, counts: CaseCounts) -> tuple[Assertion, ...]:
    """Every assertion about a case; of a control, that its output is rejected."""
    found = tuple(_assertions(case, counts))
    return (_controlled(case, found),) if case.is_control else found


def _assertions(case: SamplerCase, counts: CaseCounts) -> Iterator[Assertion]:
    for place in range(case.k):
        yield _tokens(case, place, counts)
        yield _outcomes(case, place, counts)
    for place in range(case.k):
        pairs = {(a, b): n for a, row in enumerate(counts.pairs[place]) for b, n in enumerate(row)}
        expected = [pair_row(case, place, heat=heat) for heat in (1.0, SHIFTED)]
        yield _judged(case, f"tokens at {place} and {place + 1} together", pairs, *expected)
    bonus = dict(enumerate(counts.bonus))
    yield _judged(case, "bonus token", bonus, *(_row(case, case.k, heat) for heat in (1.0, SHIFTED)))
    if case.greedy_every:
        yield _greedy(case, counts)


def _tokens(case: SamplerCase, place: int, counts: CaseCounts) -> Assertion:
    recovered, accepted = counts.outcome[place]
    tokens = {token: a + b for token, (a, b) in enumerate(zip(recovered, accepted, strict=True))}
    return _judged(case, f"token at {place}", tokens, *(_row(case, place, heat) for heat in (1.0, SHIFTED)))


def _outcomes(case: SamplerCase, place: int, counts: CaseCounts) -> Assertion:
    seen = {(kind, token): n for kind, row in enumerate(counts.outcome[place]) for token, n in enumerate(row)}
    expected = [
        {
            (kind, token): p
            for kind, row in enumerate(outcome_row(case, place, heat=heat))
            for token, p in enumerate(row)
        }
        for heat in (1.0, SHIFTED)
    ]
    return _judged(case, f"accepted and recovered at {place}", seen, *expected)


def _row(case: SamplerCase, place: int, heat: float) -> dict[int, float]:
    return dict(enumerate(target_row(case, place, heat=heat)))


def _judged(case: SamplerCase, claim: str, counts: Counted, expected: Expected, shifted: Expected) -> Assertion:
    samples = sum(counts.values())
    test, control = large_fit_test(counts, expected), large_fit_test(counts, shifted)
    bound = variation_bound(sum(p > 0 for p in expected.values()), samples, LEVEL) if samples and expected else None
    variation = _variation(counts, expected, samples)
    beyond = variation is not None and bound is not None and variation > bound
    outcome, words = _outcome(test, control, beyond=beyond)
    return Assertion(
        case=case.name,
        claim=claim,
        outcome=outcome,
        samples=samples,
        g=test.g,
        df=test.df,
        p=test.p,
        variation=variation,
        variation_bound=bound,
        detectable_ncp=detectable_ncp(test.df, LEVEL, POWER) / samples if test.df and samples else None,
        control_p=control.p,
        words=words,
    )


def _outcome(test: CountTest, control: CountTest, *, beyond: bool) -> tuple[AssertionOutcome, str]:
    if test.p is not None and test.p < LEVEL:
        return AssertionOutcome.FAIL, f"G rejects the target's distribution (p {test.p:.1g})"
    if beyond:
        return AssertionOutcome.FAIL, "the total variation is beyond its bound"
    if test.p is None:
        return AssertionOutcome.NOT_CHECKABLE, "there is one possible value, or too few samples"
    if control.p is None or control.p >= LEVEL:
        return AssertionOutcome.NOT_CHECKABLE, f"a target at {SHIFTED:g} times the temperature was not told apart"
    return AssertionOutcome.PASS, ""


def _variation(counts: Counted, expected: Expected, samples: int) -> float | None:
    if not samples or not expected:
        return None
    return sum(abs(counts.get(cell, 0) / samples - expected.get(cell, 0.0)) for cell in {*counts, *expected}) / 2


def _greedy(case: SamplerCase, counts: CaseCounts) -> Assertion:
    """Greedy rows have one right answer each; drafts that are and are not the argmax must both have come up."""
    wrong, lengths = 0, set[int]()
    for key, times in counts.greedy.items():
        drafted, out = (ast.literal_eval(f"{part}]") for part in key.removesuffix("]").split("] "))
        right = greedy_output(case, drafted)
        lengths.add(len(right))
        wrong += times * (tuple(out) != right)
    samples = sum(counts.greedy.values())
    outcome = AssertionOutcome.PASS if len(lengths) > 1 else AssertionOutcome.NOT_CHECKABLE
    words = "" if len(lengths) > 1 else "all greedy rows accepted alike"
    if wrong:
        outcome, words = AssertionOutcome.FAIL, f"{wrong} greedy rows put out something else than the argmax"
    return Assertion(
        case=case.name, claim="greedy rows among sampled ones", outcome=outcome, samples=samples, words=words
    )


def _controlled(case: SamplerCase, found: tuple[Assertion, ...]) -> Assertion:
    """The output of a case that makes any sampler lossy, seen by the same judgment."""
    first = found[0]
    rejected = first.outcome is AssertionOutcome.FAIL
    outcome = AssertionOutcome.PASS if rejected else AssertionOutcome.NOT_CHECKABLE
    words = "" if rejected else "a lossy sampler was not told apart"
    return first.model_copy(update={"case": case.name, "claim": "is rejected", "outcome": outcome, "words": words})
