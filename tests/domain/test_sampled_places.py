"""A place's distribution after temperature and masks, and how well answers fit it."""

import math

import numpy as np
import pytest

from app.domain.manifest import Sampling
from app.domain.sampled_places import fit, stated, unjudged
from app.domain.verified import Alternative

PROBABILITIES = (0.5, 0.3, 0.15, 0.05)


def _alternatives(probabilities: tuple[float, ...] = PROBABILITIES, *, add: float = 0.0) -> list[Alternative]:
    return [Alternative(token_id=10 + i, logit=math.log(p) + add) for i, p in enumerate(probabilities)]


def test_temperature() -> None:
    place = stated(_alternatives(), Sampling(temperature=0.5), raw_logits=False)
    total = sum(p**2 for p in PROBABILITIES)
    assert place == pytest.approx({10 + i: p**2 / total for i, p in enumerate(PROBABILITIES)})


def test_logits_do_as_well() -> None:
    """Given that a token is among the stated ones, a constant on all of them says nothing."""
    sampling = Sampling(temperature=1.3)
    plain = stated(_alternatives(), sampling, raw_logits=False)
    assert stated(_alternatives(add=7.5), sampling, raw_logits=True) == pytest.approx(plain)


def test_masks() -> None:
    kept = stated(_alternatives(), Sampling(temperature=1.0, top_k=2), raw_logits=True)
    assert kept == pytest.approx({10: 0.625, 11: 0.375})
    nucleus = stated(_alternatives(), Sampling(temperature=1.0, top_p=0.79), raw_logits=False)
    assert nucleus == pytest.approx({10: 0.625, 11: 0.375})
    nucleus = stated(_alternatives(), Sampling(temperature=1.0, top_p=0.81), raw_logits=False)
    assert nucleus is not None
    assert set(nucleus) == {10, 11, 12}


def test_nucleus_that_hangs_on_what_is_not_stated() -> None:
    """Half of the probability is elsewhere: above temperature 1 nobody knows how much that then weighs."""
    stated_half = _alternatives((0.3, 0.1, 0.1))
    assert stated(stated_half, Sampling(temperature=1.2, top_p=0.6), raw_logits=False) is None
    assert stated(stated_half, Sampling(temperature=1.2, top_p=0.6), raw_logits=True) is None
    assert stated(stated_half, Sampling(temperature=1.0, top_p=0.35), raw_logits=False) == pytest.approx(
        {10: 0.75, 11: 0.25}
    )


@pytest.mark.parametrize(
    ("field", "value"), [("repetition_penalty", 1.2), ("presence_penalty", 0.5), ("frequency_penalty", -0.1)]
)
def test_penalties_cannot_be_judged(field: str, value: float) -> None:
    assert field in str(unjudged(Sampling.model_validate({"temperature": 1.0, field: value})))
    assert unjudged(Sampling(temperature=1.0, repetition_penalty=1.0, presence_penalty=0.0)) is None


def test_fit_is_zero_on_average_and_varies_as_stated() -> None:
    chance = np.random.default_rng(3)
    place = {10 + i: p for i, p in enumerate(PROBABILITIES)}
    drawn = [int(token) for token in 10 + chance.choice(4, 20_000, p=PROBABILITIES)]
    found = fit(drawn, [place] * len(drawn))
    assert found.places == len(drawn)
    assert abs(found.surplus) < 4 * math.sqrt(found.variance)
    assert abs(found.top_surplus) < 4 * math.sqrt(found.top_variance)
    each = [fit([token], [place]).surplus for token in drawn]
    assert np.var(each) == pytest.approx(found.variance / len(drawn), rel=0.05)


def test_fit_leaves_out_what_says_nothing() -> None:
    place = {10: 0.6, 11: 0.4}
    found = fit([10, 99, 10, 10], [place, place, {10: 1.0}, None])
    assert (found.places, found.outside) == (1, 1)
