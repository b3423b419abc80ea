"""Sampling with a known distribution: the next token depends on the one before it, and on nothing else.

So a place can be stated for any text, as ``prompt_logprobs`` does, and defects of sampling have known sizes.
"""

import math
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

CHOICES = 16
SHARPNESS = 1.5


@cache
def row_after(token: int, vocabulary: int) -> tuple[tuple[int, float], ...]:
    """Every token that may follow, with its natural logarithm of probability; the most probable first."""
    chance = random.Random(f"row/{token % 64}")
    logits = {t % vocabulary: chance.gauss(0, SHARPNESS) for t in chance.sample(range(1, 1000), CHOICES)}
    total = math.log(math.fsum(map(math.exp, logits.values())))
    return tuple(sorted(((t, logit - total) for t, logit in logits.items()), key=lambda one: -one[1]))


def sampled(
    prompt: Sequence[int], count: int, *, vocabulary: int, temperature: float, seed: int, takes_top: float
) -> tuple[int, ...]:
    """``count`` tokens; ``takes_top`` of them are the most probable one, whatever chance says."""
    chance, tokens = random.Random(f"sample/{seed}/{sum(prompt)}"), list[int]()
    for _ in range(count):
        row = row_after(tokens[-1] if tokens else prompt[-1], vocabulary)
        weights = [math.exp(logit / temperature) for _, logit in row]
        drawn = chance.choices([token for token, _ in row], weights)[0]
        tokens.append(row[0][0] if chance.random() < takes_top else drawn)
    return tuple(tokens)


def stated(prompt: Sequence[int], vocabulary: int) -> list[Any]:
    """``prompt_logprobs`` as vLLM gives them: each place's most probable tokens, and its own."""
    return [None, *(_place(before, token, vocabulary) for before, token in pairwise(prompt))]


def _place(before: int, token: int, vocabulary: int) -> dict[str, dict[str, Any]]:
    row = row_after(before, vocabulary)
    place = {
        str(t): {"logprob": logit, "rank": rank, "decoded_token": f" t{t}"} for rank, (t, logit) in enumerate(row, 1)
    }
    return {str(token): {"logprob": -30.0, "rank": vocabulary, "decoded_token": f" t{token}"}, **place}
