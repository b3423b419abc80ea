"""What an engine's rejection sampler must put out for fixed logits, place by place.

Given that a place is reached, its token is the target's; which of them were accepted and which recovered follows from
the draft's probabilities (``rejection_algebra``; here in floating point, since logits are no fractions).
"""

import math
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

SHIFTED: Final = 1.2
"""The negative control expects what a target at so many times the temperature would put out."""
Row = tuple[float, ...]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Penalties(_Frozen):
    """As vLLM names them; the first two count what was said, the last the prompt too."""

    frequency: float
    presence: float
    repetition: float


class SamplerCase(_Frozen):
    """One batch of equal rows, as the driving script reads it."""

    name: str
    target_logits: tuple[Row, ...]
    """One row for each drafted place, then that of the bonus token."""
    draft_probabilities: tuple[Row, ...] | None = None
    """What drafts are drawn from; absent where ``draft_tokens`` are the same in each row."""
    draft_tokens: tuple[int, ...] | None = None
    hands_over_probabilities: bool = False
    """Whether the sampler is given the draft's probabilities; if not, it takes each draft as certain."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: int | None = None
    top_p: float | None = None
    greedy_every: int = 0
    """Every so many rows are greedy; 0: none."""
    seeded_every: int = 0
    """Every so many rows state a seed of their own; 0: none."""
    penalties: Penalties | None = None
    prompt: tuple[int, ...] = (0,)
    already_said: tuple[int, ...] = ()
    rows: int = 10_000
    is_control: bool = False
    """The sampler is given what makes any sampler lossy: its output must be rejected."""

    @property
    def k(self) -> int:
        """Drafted places."""
        return len(self.target_logits) - 1


def target_row(case: SamplerCase, place: int, *, heat: float = 1.0) -> Row:
    """The target's distribution at a place: penalties, temperature, top-k, top-p, in the engine's order."""
    logits = _penalised(case, place)
    scaled = [logit / (case.temperature * heat) for logit in logits]
    if case.top_k is not None:
        least = sorted(scaled, reverse=True)[case.top_k - 1]
        scaled = [logit if logit >= least else -math.inf for logit in scaled]
    row = _softmax(scaled)
    return row if case.top_p is None else _nucleus(row, case.top_p)


def draft_row(case: SamplerCase, place: int) -> Row:
    """What the draft at a place is drawn from."""
    size = len(case.target_logits[0])
    if case.draft_tokens is not None:
        return tuple(float(token == case.draft_tokens[place]) for token in range(size))
    return (case.draft_probabilities or ())[place]


def outcome_row(case: SamplerCase, place: int, *, heat: float = 1.0) -> tuple[Row, Row]:
    """Probabilities of (recovered, accepted) with each token, given that the place is reached."""
    p, q = target_row(case, place, heat=heat), draft_row(case, place)
    if case.hands_over_probabilities:
        accepted = tuple(map(min, p, q))
        return tuple(max(a - b, 0.0) for a, b in zip(p, q, strict=True)), accepted
    # Taken as certain, a draft x is accepted at p(x), and otherwise replaced from p without x.
    return tuple(a * (1 - b) for a, b in zip(p, q, strict=True)), tuple(a * b for a, b in zip(p, q, strict=True))


def pair_row(case: SamplerCase, place: int, *, heat: float = 1.0) -> dict[tuple[int, int], float]:
    """Of an accepted token and the one after it: independent, since the rows of logits are fixed."""
    accepted = outcome_row(case, place, heat=heat)[1]
    following, share = target_row(case, place + 1, heat=heat), sum(accepted)
    return {(a, b): p * q / share for a, p in enumerate(accepted) for b, q in enumerate(following)} if share else {}


def greedy_output(case: SamplerCase, drafted: Sequence[int]) -> tuple[int, ...]:
    """What a greedy row must put out: drafts as far as they are the argmax, then the argmax."""
    best = [_argmax(_penalised(case, place)) for place in range(case.k + 1)]
    for place, token in enumerate(drafted):
        if token != best[place]:
            return tuple(best[: place + 1])
    return tuple(best)


def _penalised(case: SamplerCase, place: int) -> Row:
    logits = case.target_logits[place]
    if case.penalties is None:
        return logits
    said = (*case.already_said, *(case.draft_tokens or ())[:place])
    return tuple(_penalty(logit, token, said, case) for token, logit in enumerate(logits))


def _penalty(logit: float, token: int, said: Sequence[int], case: SamplerCase) -> float:
    penalties, times = case.penalties, said.count(token)
    if penalties is None:
        return logit
    if times or token in case.prompt:
        logit = logit / penalties.repetition if logit > 0 else logit * penalties.repetition
    return logit - penalties.frequency * times - penalties.presence * (times > 0)


def _softmax(logits: Sequence[float]) -> Row:
    highest = max(logits)
    weights = [math.exp(logit - highest) for logit in logits]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def _nucleus(row: Row, top_p: float) -> Row:
    """A token stays while those more probable hold less than ``top_p``."""
    kept, before = [0.0] * len(row), 0.0
    for token in sorted(range(len(row)), key=lambda one: row[one], reverse=True):
        if before < top_p:
            kept[token] = row[token]
        before += row[token]
    total = math.fsum(kept)
    return tuple(value / total for value in kept)


def _argmax(row: Row) -> int:
    return max(range(len(row)), key=lambda token: row[token])
