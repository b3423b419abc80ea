"""Where two greedy answers part, and by how much the target preferred its own token there (method A15).

Rounding can only exchange tokens whose logits nearly tie, so the gap at the first differing token tells
what rounding may have done from what it cannot have done.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from app.domain.verified import Alternative, VerifiedAnswer

FRACTION_BITS: Final = {"bfloat16": 7, "float16": 10, "float32": 23}
TIE_ULPS: Final = 2
"""Two logits this close tie: each of them is off by up to one."""
BATCH_ULPS: Final = 8
"""What another batch, with its other order of additions, may move two logits apart. Declared, not measured."""
MAGNITUDE_ASSUMED: Final = 16.0
"""Of a logit where only log probabilities are known (method A15: between 16 and 32)."""


class Answer(NamedTuple):
    """What must be equal under greedy decoding; the length is that of the tokens."""

    token_ids: tuple[int, ...]
    finish_reason: str | None
    text: str = ""


class Prompt(NamedTuple):
    """A request of a trace: the unit of all shares here."""

    workload: str
    request_id: str


class Departure(NamedTuple):
    """Where an answer leaves every answer of the target, at the latest place at which it does so."""

    beginning: tuple[int, ...]
    """The tokens up to there, which one of the target's answers has too."""
    token: int | None
    """The answer's next token; ``None`` where it has ended."""
    expected: frozenset[int | None]
    """What the target's answers with this beginning go on with."""

    @property
    def is_ending(self) -> bool:
        """Whether one side has ended: no gap between two tokens is to blame for that."""
        return self.token is None or all(token is None for token in self.expected)


class Gap(NamedTuple):
    """By how much the target prefers its own token to another one, in nats."""

    nats: float
    is_bound: bool
    """The other token is not among the alternatives, so the gap is this or larger."""
    between: int
    """Tokens that the target prefers to the other one, though not to its own."""
    magnitude: float
    """Of the logit at the top; assumed where only log probabilities are known."""


Alternatives = Sequence[Alternative]
Choices = Mapping[tuple[int, ...], Alternatives]
"""Beginning of an answer → the target's most probable next tokens."""


def answer_of(given: VerifiedAnswer) -> Answer | None:
    """``None`` where there is no answer."""
    return None if given.error is not None else Answer(given.token_ids, given.finish_reason, given.text)


def common_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two answers have in common before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def departure(answer: Answer, targets: Collection[Answer]) -> Departure | None:
    """``None`` where the target gave this very answer, or none at all."""
    if not targets or answer in targets:
        return None
    place = max(common_tokens(answer.token_ids, target.token_ids) for target in targets)
    beginning = answer.token_ids[:place]
    expected = {_token_at(target, place) for target in targets if target.token_ids[:place] == beginning}
    return Departure(beginning, _token_at(answer, place), frozenset(expected))


def forks(one: Iterable[Answer], other: Collection[Answer]) -> frozenset[tuple[int, ...]]:
    """The beginnings after which an answer of ``one`` and one of ``other`` go on with different tokens."""
    found: set[tuple[int, ...]] = set()
    for a in one:
        for b in other:
            place = common_tokens(a.token_ids, b.token_ids)
            if place < min(len(a.token_ids), len(b.token_ids)):
                found.add(a.token_ids[:place])
    return frozenset(found)


def gap_of(left: Departure, alternatives: Alternatives, *, raw_logits: bool) -> Gap:
    """How far the departing token lies below the best of those that the target chose itself.

    0 where the target, asked with this beginning, prefers the departing token.
    """
    logits = {a.token_id: a.logit for a in alternatives}
    best = max(logits.values())
    own = max((logits[t] for t in left.expected if t is not None and t in logits), default=best)
    lowest = min(logits.values())
    other = logits.get(left.token if left.token is not None else -1, lowest)
    return Gap(
        nats=max(own - other, 0.0),
        is_bound=left.token not in logits,
        between=sum(other < logit < own for logit in logits.values()),
        magnitude=abs(best) if raw_logits else MAGNITUDE_ASSUMED,
    )


def ulp(magnitude: float, dtype: str) -> float:
    """The distance between neighbouring numbers of ``dtype`` at this magnitude (normal numbers)."""
    exponent = math.floor(math.log2(magnitude)) if magnitude > 0 else 0
    return 2.0 ** (exponent - FRACTION_BITS[dtype])


def tie_tolerance(magnitude: float, dtype: str) -> float:
    """The largest gap that is a near tie: ``TIE_ULPS`` at the logit's magnitude."""
    return TIE_ULPS * ulp(magnitude, dtype)


def batch_tolerance(magnitude: float, dtype: str) -> float:
    """The largest gap that another batch can close: ``BATCH_ULPS`` at the logit's magnitude."""
    return BATCH_ULPS * ulp(magnitude, dtype)


def _token_at(answer: Answer, place: int) -> int | None:
    return answer.token_ids[place] if place < len(answer.token_ids) else None
