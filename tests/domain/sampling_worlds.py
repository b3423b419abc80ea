"""A known target to sample from, with defects: what the tests of sampled outputs are judged by."""

from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.sampled_places import Fit
from app.domain.sampling_tests import Sample

VOCABULARY: Final = 24
END: Final = 0
START: Final = 1
PROMPTS: Final = 8
Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]


class World:
    """A first-order target: the next token depends on the prompt and the token before."""

    def __init__(self, seed: int = 1, *, sharpness: float = 1.6) -> None:
        logits = np.random.default_rng(seed).normal(0, sharpness, (PROMPTS, VOCABULARY, VOCABULARY))
        logits[:, :, END] -= 2.0
        self._logits = logits
        p = _softmax(logits)
        mean = (p * np.log(p)).sum(-1, keepdims=True)
        self._p, self._surplus = p, np.log(p) - mean
        self._variance = (p * self._surplus**2).sum(-1)

    def stated(self, prompts: int) -> dict[int, dict[int, float]]:
        """What the target states of first tokens."""
        return {prompt: dict(enumerate(map(float, self._p[prompt, START]))) for prompt in range(prompts)}

    def samples(
        self, seed: int, *, prompts: int = PROMPTS, each: int = 64, length: int = 32,
        temperature: float = 1.0, takes_top: float = 0.0,
    ) -> dict[int, list[Sample]]:  # fmt: skip
        """``each`` answers to every prompt, scored under the target; ``takes_top``: how often its argmax is taken."""
        chance = np.random.default_rng(seed)
        heated = np.cumsum(_softmax(self._logits / temperature), axis=-1)
        return {
            prompt: [
                self._sample(prompt, tokens)
                for tokens in self._tokens(prompt, (each, length), heated, takes_top, chance)
            ]
            for prompt in range(prompts)
        }

    def _tokens(
        self, prompt: int, shape: tuple[int, int], heated: Floats, takes_top: float, chance: np.random.Generator
    ) -> Tokens:
        (each, length), before = shape, np.full(shape[0], START)
        out = np.zeros(shape, dtype=np.int64)
        for place in range(length):
            rows = heated[prompt, before]
            drawn = np.minimum((rows < chance.random((each, 1))).sum(-1), VOCABULARY - 1)
            top = self._p[prompt, before].argmax(-1)
            before = np.where(chance.random(each) < takes_top, top, drawn)
            out[:, place] = before
        return out

    def _sample(self, prompt: int, row: Tokens) -> Sample:
        ended = np.flatnonzero(row == END)
        tokens = row[: ended[0] + 1] if ended.size else row
        before = np.concatenate([[START], tokens[:-1]])
        p = self._p[prompt, before]
        top = p.max(-1)
        fit = Fit(
            places=len(tokens),
            outside=0,
            log_likelihood=float(np.log(p[np.arange(len(tokens)), tokens]).sum()),
            surplus=float(self._surplus[prompt, before, tokens].sum()),
            variance=float(self._variance[prompt, before].sum()),
            top_surplus=float(((tokens == p.argmax(-1)) - top).sum()),
            top_variance=float((top * (1 - top)).sum()),
        )
        return Sample(tuple(map(int, tokens)), "stop" if ended.size else "length", fit)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
