"""How well a sampled token fits what the target states for its place.

A server states its most probable tokens only. Given that a token is one of them, its distribution at any temperature
is known exactly, and logits do as well as log probabilities: so a place is looked at under that condition.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.domain.serving import Sampling
from app.domain.verified import Alternative

PENALTIES: Final = ("min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
"""They change what is sampled and not what is stated, so that places cannot be judged with them."""
_NEUTRAL: Final = {"repetition_penalty": 1.0}
TAIL_NEGLIGIBLE: Final = 1e-6


class Fit(NamedTuple):
    """Sums over the places of one answer, each of an amount whose mean is 0 while the target's distribution holds."""

    places: int
    """Places whose token is among the stated ones, with more than one to choose from."""
    outside: int
    """Tokens that the target does not state among its most probable ones."""
    log_likelihood: float
    """``sum ln p(x)``."""
    surplus: float
    """``sum (ln p(x) - E ln p)``."""
    variance: float
    """``sum Var ln p``: what ``surplus`` varies by."""
    top_surplus: float
    """``sum (1[x is the most probable] - p_max)``."""
    top_variance: float
    """``sum p_max (1 - p_max)``."""


def unjudged(sampling: Sampling) -> str | None:
    """Why places cannot be judged under this sampling; ``None`` where they can."""
    odd = [name for name in PENALTIES if (getattr(sampling, name) or 0.0) not in {0.0, _NEUTRAL.get(name, 0.0)}]
    return (
        f"{', '.join(odd)} changes what is sampled at each place in a way that the target does not state"
        if odd
        else None
    )


def stated(alternatives: Sequence[Alternative], sampling: Sampling, *, raw_logits: bool) -> dict[int, float] | None:
    """The distribution among the stated tokens after temperature, top-k, top-p; ``None`` if top-p cannot be told."""
    given = sorted(alternatives, key=lambda one: one.logit, reverse=True)[: sampling.top_k or None]
    if not given or sampling.temperature <= 0:
        return None
    highest = given[0].logit
    weights = [math.exp((one.logit - highest) / sampling.temperature) for one in given]
    if sampling.top_p < 1:
        cut = _nucleus(given, weights, sampling, raw_logits=raw_logits)
        if cut is None:
            return None
        given, weights = given[:cut], weights[:cut]
    total = sum(weights)
    return {one.token_id: weight / total for one, weight in zip(given, weights, strict=True)}


def fit(tokens: Sequence[int], places: Sequence[Mapping[int, float] | None]) -> Fit:
    """The sums over an answer's tokens, each under its place's distribution."""
    sums, within, outside = [0.0] * 5, 0, 0
    for token, place in zip(tokens, places, strict=False):
        if place is None or len(place) < 2:  # noqa: PLR2004  (one possible token says nothing)
            continue
        if token not in place:
            outside += 1
            continue
        within += 1
        sums = [a + b for a, b in zip(sums, _amounts(token, place), strict=True)]
    return Fit(within, outside, *sums)


def _amounts(token: int, place: Mapping[int, float]) -> tuple[float, float, float, float, float]:
    surprises = {other: math.log(p) for other, p in place.items() if p > 0}
    mean = sum(place[other] * value for other, value in surprises.items())
    variance = sum(place[other] * (value - mean) ** 2 for other, value in surprises.items())
    top = max(place.values())
    is_top = token == max(place, key=lambda other: place[other])
    own = surprises.get(token, -math.inf)
    own = max(own, min(surprises.values()))
    return own, own - mean, variance, is_top - top, top * (1 - top)


def _nucleus(
    given: Sequence[Alternative], weights: Sequence[float], sampling: Sampling, *, raw_logits: bool
) -> int | None:
    """How many tokens top-p keeps; ``None`` where that depends on tokens that are not stated."""
    complete = sampling.top_k is not None and sampling.top_k <= len(given)
    tails = (0.0,) if complete else _tails(given, weights, sampling, raw_logits=raw_logits)
    counts = {_kept(weights, sum(weights) + tail, sampling.top_p) for tail in tails}
    return counts.pop() if len(counts) == 1 else None


def _tails(
    given: Sequence[Alternative], weights: Sequence[float], sampling: Sampling, *, raw_logits: bool
) -> tuple[float, ...]:
    """Least and most weight on the tokens that are not stated: each weighs no more than the last stated one."""
    if raw_logits:
        return ()
    left = max(1 - sum(math.exp(one.logit) for one in given), 0.0)
    if left < TAIL_NEGLIGIBLE:
        return (0.0,)
    most = weights[-1] * left / math.exp(given[-1].logit)
    if sampling.temperature == 1:
        return (most,)
    return (0.0, most) if sampling.temperature < 1 else ()


def _kept(weights: Sequence[float], total: float, top_p: float) -> int:
    """A token is kept while those more probable hold less than ``top_p``."""
    before = 0.0
    for index, weight in enumerate(weights):
        if before >= top_p * total:
            return index
        before += weight
    return len(weights)
