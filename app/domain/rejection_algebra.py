"""Rejection sampling in exact fractions: what speculation must put out, with no engine and no chance in it.

A draft token x ~ q is accepted with probability min(1, p(x)/q(x)); a rejected one is drawn anew from the residual
(p - q)+ / sum (p - q)+. The output is then exactly p (Leviathan et al. 2023, theorem 3.5, corollary 3.6; method A14).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

Distribution = tuple[Fraction, ...]
"""Probability of each token of a small vocabulary."""
Ratio = Callable[[int], Fraction]
"""Probability that a drafted token is accepted."""


def alpha(p: Distribution, q: Distribution) -> Fraction:
    """``sum min(p, q) = 1 - TV(p, q)``: the share of drafts that are accepted."""
    return sum(map(min, p, q), Fraction(0))


def total_variation(p: Distribution, q: Distribution) -> Fraction:
    """``1/2 sum |p - q|``."""
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0)) / 2


def noncentrality(p: Distribution, other: Distribution) -> Fraction:
    """``sum (other - p)^2 / p``: the chi-squared noncentrality that each sample of ``other`` adds in a test of p."""
    return sum(((b - a) ** 2 / a for a, b in zip(p, other, strict=True)), Fraction(0))


def one_hot(token: int, size: int) -> Distribution:
    """The q of a proposer that is certain: ngram, suffix, or the argmax of a draft model."""
    return tuple(Fraction(int(index == token)) for index in range(size))


def residual(p: Distribution, q: Distribution) -> Distribution:
    """``(p - q)+ / sum (p - q)+``; p itself where q leaves nothing over, since nothing is then rejected."""
    left = tuple(max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True))
    total = sum(left, Fraction(0))
    return tuple(part / total for part in left) if total else p


def accepts(p: Distribution, q: Distribution) -> Ratio:
    """``min(1, p(x) / q(x))``; a token that q could not draft is never accepted."""
    return lambda token: min(Fraction(1), p[token] / q[token]) if q[token] else Fraction(0)


def output(q: Distribution, accepted: Ratio, recovered: Distribution) -> Distribution:
    """What comes out where drafts come from ``q`` and a rejected one is replaced by one from ``recovered``."""
    kept = tuple(q[token] * accepted(token) for token in range(len(q)))
    rejected = 1 - sum(kept, Fraction(0))
    return tuple(part + rejected * again for part, again in zip(kept, recovered, strict=True))


def standard_output(p: Distribution, q: Distribution) -> Distribution:
    """What standard rejection sampling puts out; equal to p."""
    return output(q, accepts(p, q), residual(p, q))


def certain_output(p: Distribution, drafted: int) -> Distribution:
    """The same for a draft that is certain of one token."""
    return standard_output(p, one_hot(drafted, len(p)))


Context = tuple[int, ...]
Model = Callable[[Context], Distribution]
"""The next token's distribution after a context."""


def sequence_output(target: Model, draft: Model, k: int, length: int) -> dict[Context, Fraction]:
    """Distribution of the first ``length`` tokens of a step with ``k`` drafts, followed by the target's own tokens.

    After the first rejection, or the bonus token, the rest is drawn from the target: as the next steps would.
    """
    found: dict[Context, Fraction] = {(): Fraction(1)}
    speculative: dict[Context, Fraction] = {(): Fraction(1)}  # the part whose drafts were all accepted so far
    for position in range(length):
        found, speculative = _extended(found, speculative, target, draft if position < k else None)
    return found


def direct_output(target: Model, size: int, length: int) -> dict[Context, Fraction]:
    """Distribution of the first ``length`` tokens of the target alone."""
    found: dict[Context, Fraction] = {}
    for tokens in product(range(size), repeat=length):
        probability = Fraction(1)
        for place, token in enumerate(tokens):
            probability *= target(tokens[:place])[token]
        found[tokens] = probability
    return {tokens: probability for tokens, probability in found.items() if probability}


def expected_tokens(rate: Fraction, k: int) -> Fraction:
    """``(1 - a^(k+1)) / (1 - a)``: tokens of one step where every draft is accepted at rate a (Leviathan, eq. 1)."""
    return sum((rate**power for power in range(k + 1)), Fraction(0))


def _extended(
    found: dict[Context, Fraction], speculative: dict[Context, Fraction], target: Model, draft: Model | None
) -> tuple[dict[Context, Fraction], dict[Context, Fraction]]:
    """One position more: drafted and verified where the prefix was all accepted, drawn from the target elsewhere."""
    longer: dict[Context, Fraction] = {}
    accepted: dict[Context, Fraction] = {}
    for context, probability in found.items():
        p, drafted = target(context), speculative.get(context, Fraction(0))
        q = None if draft is None else draft(context)
        out = p if q is None else standard_output(p, q)
        kept = p if q is None else _kept(p, q)
        for token in range(len(p)):
            share = drafted * out[token] + (probability - drafted) * p[token]
            if share:
                longer[*context, token] = share
                accepted[*context, token] = drafted * kept[token]
    return longer, accepted


def _kept(p: Distribution, q: Distribution) -> Sequence[Fraction]:
    return tuple(map(min, p, q))
