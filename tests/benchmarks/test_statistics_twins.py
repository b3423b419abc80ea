"""What judges the product over many experiments at once says of each what the product says of it alone."""

import math

import numpy as np
import pytest

from app.domain.finding import find, sharing
from app.domain.looks import spending
from app.domain.paired import minimum_detectable_effect
from app.domain.statistics import quantile, quantile_over_runs, t_interval
from app.domain.vocabulary import VerdictWord
from benchmarks.statistics import twins
from benchmarks.statistics.figures import Figure, coverage, false_words, power
from benchmarks.statistics.queues import served

RULE = {"delta": 0.05, "confidence": 0.95}


@pytest.mark.parametrize("confidence", [0.95, 0.99375])
def test_the_t_interval(confidence: float) -> None:
    drawn = np.random.default_rng(1).normal(0.1, 0.3, (20, 5))
    found = twins.t_interval(drawn, confidence)
    for row, values in enumerate(drawn):
        assert (found.low[row], found.high[row]) == pytest.approx(t_interval(list(values), confidence))


@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_the_quantile_of_a_run_and_of_the_typical_run(q: float) -> None:
    logs = np.random.default_rng(2).normal(0, 1, (3, 4, 130))
    runs = twins.run_quantiles(logs, q)
    limits = twins.t_interval(runs)
    for experiment, blocks in enumerate(logs):
        assert list(runs[experiment]) == pytest.approx([quantile(list(block), q) for block in blocks])
        found = quantile_over_runs([list(np.exp(block)) for block in blocks], q, "ms")
        # The logarithm of a quantile is the quantile of logarithms, but for the interpolation within one gap.
        tolerance = 0.05 if q > 0.9 else 0.005
        assert math.log(found.low or 1) == pytest.approx(limits.low[experiment], abs=tolerance)
        assert math.log(found.high or 1) == pytest.approx(limits.high[experiment], abs=tolerance)


@pytest.mark.parametrize("sd", [0.01, 0.04, 0.2])
def test_the_words_of_a_family(sd: float) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.normal(rng.choice([0.0, 0.05, 0.3, -0.2], (30, 6, 1)), sd, (30, 6, 5))
    said = twins.words(drawn, delta=0.05)
    for row, members in enumerate(drawn):
        shares = sharing([list(m) for m in members], **RULE, family=len(members))
        alone = [find(list(m), **RULE, family=n).word for m, n in zip(members, shares, strict=True)]
        assert list(said[row]) == alone
    if sd < 0.1:
        assert len(set(said.ravel())) > 2


def test_what_an_a_a_experiment_calls_detectable() -> None:
    """Of the noisiest condition, as the product takes it from a report's comparisons."""
    drawn = np.random.default_rng(7).normal(0, 0.04, (10, 4, 5))
    for row, members in enumerate(drawn):
        each = [minimum_detectable_effect(list(m)) for m in members]
        assert twins.aa_detectable(drawn)[row] == pytest.approx(max(e for e in each if e is not None))


@pytest.mark.parametrize("sd", [0.03, 0.05])
def test_the_look_that_stops_a_family(sd: float) -> None:
    """As ``judged.judge`` goes through its looks, with the product's own words at each."""
    looks = spending(12, (5, 8), 0.95)
    rng = np.random.default_rng(6)
    drawn = rng.normal(rng.choice([0.0, 0.12, 0.3, -0.2], (30, 4, 1)), sd, (30, 4, 12))
    stopped = twins.at_looks(drawn, looks, delta=0.05)
    for row, members in enumerate(drawn):
        index, said = -1, list[VerdictWord]()
        for index, look in enumerate(looks):
            seen = [list(m[: look.blocks]) for m in members]
            rule = {"delta": 0.05, "confidence": look.confidence}
            shares = sharing(seen, **rule, family=len(seen))
            said = [find(m, **rule, family=n).word for m, n in zip(seen, shares, strict=True)]
            if VerdictWord.INCONCLUSIVE not in said or index == len(looks) - 1:
                break
        assert stopped.look[row] == index
        assert list(stopped.words[row]) == said
    assert len(set(stopped.look)) > 1


def test_one_slot_is_served_as_many_would_be_by_hand() -> None:
    due, service = np.array([0.0, 1.0, 1.5, 9.0]), np.array([2.0, 1.0, 1.0, 0.5])
    assert list(served(due, service, 1)) == [2.0, 3.0, 4.0, 9.5]
    assert list(served(due, service, 2)) == [2.0, 2.0, 3.0, 9.5]


def test_a_row_is_short_where_it_misses_its_bar_and_a_rival_never_is() -> None:
    half = np.array([True, False] * 50)
    assert coverage("i", "w", half, exact=True).mark == "SHORT"
    assert coverage("i", "w", np.ones(100, dtype=bool), exact=True).mark == ""
    assert coverage("i", "w", np.ones(100, dtype=bool), exact=False).mark == "SHORT"
    assert coverage("i", "w", np.arange(100) < 92, exact=True).mark == ""
    assert coverage("i", "w", np.arange(10_000) < 9_200, exact=True).mark == "SHORT"
    rival = coverage("i", "w", half, exact=False, rival=True)
    assert (rival.mark, rival.is_short) == ("fails", False)
    assert false_words("i", "w", half, 0.05).is_short
    assert not power("i", "w", half, 0.52).is_short
    assert power("i", "w", half, 0.54).is_short
    assert Figure("g", "i", "w", 0.5, 10).mark == ""
