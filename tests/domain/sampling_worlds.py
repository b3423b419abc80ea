"""A known target to sample from, with defects: what the tests of sampled outputs are judged by."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from app.domain.sampled_places import fit
from app.domain.sampling_tests import Sample

VOCABULARY = 24
END = 0
Row = npt.NDArray[np.float64]
Defect = Callable[[Row, np.random.Generator], int]


class World:
    """A first-order target: the next token depends on the prompt and the token before."""

    def __init__(self, seed: int = 1, *, sharpness: float = 1.6) -> None:
        chance = np.random.default_rng(seed)
        self._logits = chance.normal(0, sharpness, (64, VOCABULARY, VOCABULARY))
        self._logits[:, :, END] -= 2.0

    def row(self, prompt: int, before: int, temperature: float = 1.0) -> Row:
        """The distribution after ``before``."""
        weights = np.exp(self._logits[prompt, before] / temperature)
        return weights / weights.sum()

    def stated(self, prompts: int) -> dict[int, dict[int, float]]:
        """What the target states of first tokens."""
        return {prompt: dict(enumerate(map(float, self.row(prompt, 1)))) for prompt in range(prompts)}

    def samples(
        self, seed: int, *, prompts: int = 8, each: int = 64, length: int = 32,
        temperature: float = 1.0, defect: Defect | None = None,
    ) -> dict[int, list[Sample]]:  # fmt: skip
        """``each`` answers to every prompt, every token scored under the target at temperature 1."""
        chance = np.random.default_rng(seed)
        return {
            prompt: [self._one(prompt, length, temperature, defect, chance) for _ in range(each)]
            for prompt in range(prompts)
        }

    def _one(
        self, prompt: int, length: int, temperature: float, defect: Defect | None, chance: np.random.Generator
    ) -> Sample:
        tokens, places, before = list[int](), list[dict[int, float]](), 1
        while len(tokens) < length and (not tokens or tokens[-1] != END):
            row = self.row(prompt, before, temperature)
            chosen = defect(row, chance) if defect else int(np.searchsorted(np.cumsum(row), chance.random()))
            before = min(chosen, VOCABULARY - 1)
            places.append(dict(enumerate(map(float, self.row(prompt, tokens[-1] if tokens else 1)))))
            tokens.append(before)
        return Sample(tuple(tokens), "stop" if tokens[-1] == END else "length", fit(tokens, places))


def takes_top(rate: float) -> Defect:
    """With ``rate`` the most probable token, whatever chance says."""

    def chosen(row: Row, chance: np.random.Generator) -> int:
        if chance.random() < rate:
            return int(row.argmax())
        return int(np.searchsorted(np.cumsum(row), chance.random()))

    return chosen


def entropy(row: Row) -> float:
    """In nats."""
    return -math.fsum(p * math.log(p) for p in row if p > 0)
