"""A model of a few words: deterministic scores for every next token, and every parameter that chooses among them.

It repeats itself, ends by itself, and is the same in every server, so that whatever differs is a mutation's doing.
"""

import hashlib
import math
import random
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

EOS = 0
WORDS = 14
REST, NEVER = -20.0, -math.inf
END_SCORE = 20.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request says of how tokens are chosen."""

    temperature: float = 0.0
    seed: int | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    bad_words: tuple[str, ...] = ()
    allowed: frozenset[int] = frozenset()
    bias: Mapping[int, float] = field(default_factory=dict[int, float])
    min_tokens: int = 0
    ignore_eos: bool = False


class SmallModel:
    """Words from the vocabulary of ``tokenizer``, chosen by the prompt."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        size = tokenizer.get_vocab_size()
        texts = {token: tokenizer.decode([token]) for token in range(5, size)}
        self._known: dict[tuple[str, int], dict[int, float]] = {}
        self._words = [token for token, text in texts.items() if text[:1] == " " and text[1:].isalpha()]

    def scores(self, prompt: Sequence[int], output: Sequence[int]) -> dict[int, float]:
        """Scores of the likely next tokens; every other token has ``REST``."""
        about = _hash(prompt)
        ends = 6 + int(about[:4], 16) % 18
        score = END_SCORE if len(output) == ends else REST
        return {**self._scores_after(about, output[-1] if output else prompt[-1]), EOS: score}

    def _scores_after(self, about: str, last: int) -> dict[int, float]:
        if (about, last) not in self._known:
            pool = random.Random(about).sample(self._words, WORDS)
            chance = random.Random(f"{about}/{last}")
            self._known[about, last] = {token: chance.uniform(0, 12) for token in pool}
        return self._known[about, last]

    def choose(
        self, prompt: Sequence[int], output: Sequence[int], sampling: Sampling, chance: random.Random
    ) -> tuple[int, dict[int, float]]:
        """The next token, and the log-probabilities before any parameter had its say."""
        raw = self.scores(prompt, output)
        scores = self._penalised(dict(raw), prompt, output, sampling)
        for token in self._forbidden(output, sampling, scores):
            scores[token] = NEVER
        scores |= {token: scores.get(token, REST) + bias for token, bias in sampling.bias.items()}
        return _draw(scores, sampling, chance), _log_softmax(raw)

    def _penalised(
        self, scores: dict[int, float], prompt: Sequence[int], output: Sequence[int], sampling: Sampling
    ) -> dict[int, float]:
        for token in scores:
            if token in output:
                scores[token] -= sampling.presence + sampling.frequency * output.count(token)
            if token in output or token in prompt:
                scores[token] /= sampling.repetition
        return scores

    def _forbidden(self, output: Sequence[int], sampling: Sampling, scores: dict[int, float]) -> Collection[int]:
        if sampling.allowed:
            scores |= {token: scores.get(token, REST - token / 1e6) for token in sampling.allowed}
        forbidden = {token for token in scores if sampling.allowed and token not in sampling.allowed}
        forbidden |= {
            token for token in scores if any(word in self.tokenizer.decode([token]) for word in sampling.bad_words)
        }
        return forbidden | ({EOS} if len(output) < sampling.min_tokens else set())


def _draw(scores: dict[int, float], sampling: Sampling, chance: random.Random) -> int:
    ranked = sorted(scores, key=lambda token: -scores[token])
    if sampling.temperature == 0:
        return ranked[0]
    weights = [math.exp((scores[token] - scores[ranked[0]]) / sampling.temperature) for token in ranked]
    total, kept, mass = sum(weights), 0, 0.0
    for weight in weights:
        if kept and (mass / total >= sampling.top_p or weight / weights[0] < sampling.min_p):
            break
        kept, mass = kept + 1, mass + weight
    kept = min(kept, sampling.top_k or kept)
    return chance.choices(ranked[:kept], weights[:kept])[0]


def _log_softmax(scores: Mapping[int, float]) -> dict[int, float]:
    total = math.log(sum(math.exp(score) for score in scores.values()))
    return {token: score - total for token, score in scores.items()}


def _hash(tokens: Sequence[int]) -> str:
    return hashlib.sha256(array("i", tokens).tobytes()).hexdigest()


def sampling_of(body: Mapping[str, Any], ignored: Collection[str] = ()) -> Sampling:
    """The parameters of a request's body, less those that a mutation ignores."""

    def told(name: str, default: Any) -> Any:
        return default if name in ignored or body.get(name) is None else body[name]

    return Sampling(
        temperature=float(told("temperature", 1.0)),
        seed=told("seed", None),
        top_k=int(told("top_k", 0)),
        top_p=float(told("top_p", 1.0)),
        min_p=float(told("min_p", 0.0)),
        presence=float(told("presence_penalty", 0.0)),
        frequency=float(told("frequency_penalty", 0.0)),
        repetition=float(told("repetition_penalty", 1.0)),
        bad_words=tuple(told("bad_words", ())),
        allowed=frozenset(told("allowed_token_ids", ())),
        bias={int(token): float(bias) for token, bias in told("logit_bias", {}).items()},
        min_tokens=int(told("min_tokens", 0)),
        ignore_eos=bool(told("ignore_eos", False)),
    )
