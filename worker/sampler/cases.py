"""The cases that a rejection sampler is driven with: positions, draft kinds, temperatures, masks, mixed batches."""

import math
import random
from collections.abc import Iterator
from typing import Any

from app.domain.sampler_truth import Penalties, Row, SamplerCase

SEED = 20_261_130
VOCABULARY = 10
K = 2
SHARPNESS = 1.5
SEEDED_ROWS = 2_000
"""Rows with a generator each are made one by one."""


def cases() -> tuple[SamplerCase, ...]:
    """All of them, with the same logits whenever they are made."""
    chance = random.Random(SEED)
    target = tuple(_logits(chance) for _ in range(K + 1))
    drafts = tuple(_near(row, chance) for row in target[:K])
    return tuple(_cases(target, drafts))


def _cases(target: tuple[Row, ...], drafts: tuple[Row, ...]) -> Iterator[SamplerCase]:
    argmax = tuple(max(range(VOCABULARY), key=lambda token: row[token]) for row in drafts)
    sampled = SamplerCase(name="", target_logits=target, draft_probabilities=drafts, hands_over_probabilities=True)
    certain = SamplerCase(name="", target_logits=target, draft_tokens=argmax)
    for temperature in (0.7, 1.0, 1.5):
        yield _named(sampled, f"sampled drafts, temperature {temperature:g}", temperature=temperature)
        yield _named(certain, f"certain drafts, temperature {temperature:g}", temperature=temperature)
    yield _named(sampled, "sampled drafts, top-k 4", top_k=4)
    yield _named(sampled, "sampled drafts, top-p 0.8", top_p=0.8)
    yield _named(certain, "certain drafts, top-k 6 and top-p 0.9", top_k=6, top_p=0.9, temperature=1.3)
    yield _named(sampled, "sampled drafts, every third row greedy", greedy_every=3)
    yield _named(sampled, "sampled drafts, seeded rows", seeded_every=1, rows=SEEDED_ROWS)
    yield _named(certain, "certain drafts, every second row seeded", seeded_every=2, rows=SEEDED_ROWS)
    yield _named(sampled, "sampled drafts whose probabilities are missing", hands_over_probabilities=False)
    penalties = Penalties(frequency=0.4, presence=0.3, repetition=1.3)
    said = {"prompt": (1, 2), "already_said": (3, 3, 4), "rows": SEEDED_ROWS}
    yield _named(certain, "certain drafts, penalties", penalties=penalties, **said)
    wrong = _named(sampled, "control: argmax drafts with probabilities", draft_tokens=argmax)
    yield wrong.model_copy(update={"is_control": True})


def _named(case: SamplerCase, name: str, **changes: Any) -> SamplerCase:
    return case.model_copy(update={"name": name, **changes})


def _logits(chance: random.Random) -> Row:
    return tuple(chance.gauss(0, SHARPNESS) for _ in range(VOCABULARY))


def _near(row: Row, chance: random.Random) -> Row:
    """A draft that agrees with the target as much as drafts do."""
    weights = [math.exp(logit + chance.gauss(0, 0.7)) for logit in row]
    return tuple(weight / sum(weights) for weight in weights)
