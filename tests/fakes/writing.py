"""What the faithful fake writes for a request, token by token, and how it tells it: whole or in chunks."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

from tests.fakes.mutations import IGNORES
from tests.fakes.small_model import EOS, REST, Sampling, SmallModel, sampling_of
from worker.regression import grammars, streams

WINDOW = 276
"""Half the context of the suite's models, and some."""
HALF = "\N{REPLACEMENT CHARACTER}"
EXAMPLES = {
    json.dumps({"json": grammars.SCHEMA}): '{"name": "beta", "count": 3, "tags": ["x", "y"]}',
    json.dumps({"regex": grammars.REGEX}): "abc-1234-left",
    json.dumps({"grammar": grammars.GRAMMAR}): "red, green, blue, red",
    json.dumps({"choice": grammars.CHOICES}): grammars.CHOICES[1],
    json.dumps({"regex": grammars.HOSTILE}): "abcd abcd abcd abcd abcd end",
    json.dumps({"choice": [streams.UNICODE]}): streams.UNICODE,
    json.dumps({"regex": "[a-d]{12}"}): "abcdabcdabcd",
}
"""What this model writes under each constraint of the suite."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the state of the server when it came. ``on`` are the mutations."""

    body: dict[str, Any]
    prompt: tuple[int, ...]
    on: frozenset[str]
    k: int
    room: int
    cached: int
    is_crowded: bool
    is_preempted: bool

    @property
    def choices(self) -> int:
        count = int(self.body.get("n") or 1)
        return count - int("choice_missing" in self.on and count > 1)

    @property
    def sampling(self) -> Sampling:
        return sampling_of(self.body, [name for name in IGNORES if f"ignores:{name}" in self.on])

    @property
    def limit(self) -> int:
        wanted = int(self.body.get("max_tokens") or 16) + ("one_token_too_many" in self.on)
        return wanted if "one_token_too_many" in self.on else min(wanted, self.room)

    def told(self, name: str) -> Any:
        """A parameter, unless a mutation ignores it."""
        return None if f"ignores:{name}" in self.on else self.body.get(name)

    def is_wrong_at(self, position: int) -> bool:
        """Whether a mutation replaces the token at that position of the answer."""
        here = {
            "wrong_token": position == 7,
            "wrong_beside_others": position == 3 and self.is_crowded,
            "wrong_after_preemption": position == 3 and self.is_preempted,
            "wrong_from_cache": position == 3 and bool(self.cached),
            "wrong_for_short_prompts": position == 3 and len(self.prompt) == 1,
            "wrong_beyond_window": len(self.prompt) + position > WINDOW,
        }
        return any(here[name] for name in here.keys() & self.on)


@dataclass(slots=True)
class Written:
    """One choice: its tokens in steps, and the whole text after its stop was cut off."""

    steps: list[list[int]] = field(default_factory=list[list[int]])
    text: str = ""
    accepted: list[int] = field(default_factory=list[int])
    probabilities: list[dict[int, float]] = field(default_factory=list[dict[int, float]])
    finish_reason: str = "length"
    stop_reason: int | str | None = None

    @property
    def tokens(self) -> list[int]:
        return [token for step in self.steps for token in step]


def write(model: SmallModel, asked: Asked, index: int) -> Written:
    """The answer that is choice ``index`` of the request."""
    written, tokens = Written(), list[int]()
    forced = _forced(model, asked)
    chance = random.Random(_seed(asked, index))
    while True:
        token, probabilities = model.choose(asked.prompt, tokens, asked.sampling, chance)
        if forced is not None:
            token = forced[len(tokens)]
        elif asked.is_wrong_at(len(tokens)):
            token = next(other for other in probabilities if other not in {token, EOS})
        tokens.append(token)
        written.probabilities.append({token: REST, **probabilities})
        if _ends(model, asked, tokens, written):
            break
    _cut_into_steps(asked, tokens, written)
    return written


def _forced(model: SmallModel, asked: Asked) -> list[int] | None:
    constraint = asked.body.get("structured_outputs")
    if constraint is None:
        return None
    text = EXAMPLES[json.dumps(constraint)] + ("!!" if "leaves_the_grammar" in asked.on else "")
    return [*model.tokenizer.encode(text).ids, EOS]


def _seed(asked: Asked, index: int) -> str | None:
    seed = "same" if "seeds_alike" in asked.on else asked.sampling.seed
    return None if seed is None else f"{seed}/{0 if 'choices_alike' in asked.on else index}"


def _ends(model: SmallModel, asked: Asked, tokens: list[int], written: Written) -> bool:
    """Whether the answer is over with its last token; sets how, and the text."""
    last, enough = tokens[-1], len(tokens) >= asked.sampling.min_tokens
    if last == EOS and enough and not asked.sampling.ignore_eos:
        written.finish_reason, written.text = "stop", model.tokenizer.decode(tokens[:-1])
        if "token_after_eos" in asked.on:
            _append(tokens, written)
        return True
    if last in (asked.told("stop_token_ids") or ()):
        written.finish_reason, written.stop_reason = "stop", last
        written.text = model.tokenizer.decode(tokens[:-1])
        return True
    written.text = model.tokenizer.decode(tokens)
    stop = next((one for one in asked.body.get("stop") or () if one in written.text), None)
    if stop is not None:
        _stop(asked, stop, tokens, written)
        return True
    return len(tokens) >= asked.limit


def _stop(asked: Asked, stop: str, tokens: list[int], written: Written) -> None:
    written.finish_reason, written.stop_reason = "stop", stop
    included = asked.body.get("include_stop_str_in_output") and "stop_never_included" not in asked.on
    if "stop_leaked" not in asked.on:
        written.text = written.text[: written.text.find(stop) + (len(stop) if included else 0)]
    if "tokens_behind_stop" in asked.on:
        _append(tokens, written)


def _append(tokens: list[int], written: Written) -> None:
    """One token more than there should be."""
    tokens.append(tokens[0])
    written.probabilities.append(written.probabilities[0])


def _cut_into_steps(asked: Asked, tokens: Sequence[int], written: Written) -> None:
    """The prefill gives one token; a step gives one, and with drafts as many more as it accepts."""
    chance = random.Random(str(asked.prompt))
    written.steps, left = [list(tokens[:1])], list(tokens[1:])
    while left:
        accepted = chance.randint(0, asked.k) if asked.k else 0
        step, left = left[: accepted + 1], left[accepted + 1 :]
        written.steps.append(step)
        written.accepted.append(len(step) - 1)


class Teller:
    """Puts what was written into the API's form."""

    def __init__(self, asked: Asked, tokenizer: Tokenizer, *, chats: bool) -> None:
        self._asked, self._tokenizer, self._chats = asked, tokenizer, chats

    @property
    def on(self) -> frozenset[str]:
        return self._asked.on

    def empty(self, index: int) -> dict[str, Any]:
        said = {"delta": {"content": ""}} if self._chats else {"text": ""}
        return {"index": index, **said, "token_ids": [], "finish_reason": None}

    def whole(self, index: int, written: Written) -> dict[str, Any]:
        tokens, text = written.tokens, written.text
        if self._asked.told("echo"):
            tokens, text = [*self._asked.prompt, *tokens], self._tokenizer.decode(list(self._asked.prompt)) + text
        if "negative_token" in self.on:
            tokens = [-1, *tokens[1:]]
        said = {"message": {"role": "assistant", "content": text}} if self._chats else {"text": text}
        return {
            "index": index,
            **said,
            "token_ids": tokens,
            "finish_reason": written.finish_reason,
            "stop_reason": written.stop_reason,
            "logprobs": self._logprobs(written, 0, len(written.tokens)),
            "prompt_logprobs": self._prompt_logprobs(),
        }

    def chunks(self, index: int, written: Written) -> Iterator[dict[str, Any]]:
        """A chunk for each step; the last says how it ended."""
        sent, given = 0, ""
        for number, step in enumerate(written.steps):
            is_last = number == len(written.steps) - 1
            text = self._text(written, sent + len(step), is_last=is_last)
            piece = "" if "chunk_lost" in self.on and number == 1 else text[len(given) :]
            said = {"delta": {"content": piece}} if self._chats else {"text": piece}
            shown = sent + 1 if "streamed_logprob_lost" in self.on else sent + len(step)
            told = {"index": index, **said, "token_ids": step, "logprobs": self._logprobs(written, sent, shown)}
            ending = (written.finish_reason, written.stop_reason) if is_last else (None, None)
            yield {**told, "finish_reason": ending[0], "stop_reason": ending[1]}
            sent, given = sent + len(step), text

    def _text(self, written: Written, tokens: int, *, is_last: bool) -> str:
        """As far as it may be shown after so many tokens."""
        text = self._tokenizer.decode(written.tokens[:tokens])
        if "half_characters" not in self.on:
            text = text.rstrip(HALF)
        if written.stop_reason is not None and "stop_leaked_in_stream" in self.on:
            return text
        return written.text if is_last else text[: len(written.text)]

    def _logprobs(self, written: Written, start: int, end: int) -> dict[str, Any] | None:
        count = self._asked.body.get("top_logprobs" if self._chats else "logprobs")
        if count is None:
            return None
        shift = int("logprobs_shifted" in self.on)
        places = [(written.tokens[at], written.probabilities[at - shift]) for at in range(start, end)]
        values = [found.get(token, REST) for token, found in places]
        tops = [self._top(found, int(count)) for _, found in places]
        if self._chats:
            listed = [[{"token": token, "logprob": value} for token, value in top.items()] for top in tops]
            content = [{"token": "", "logprob": v, "top_logprobs": t} for v, t in zip(values, listed, strict=True)]
            return {"content": content}
        return {"token_logprobs": values, "top_logprobs": tops}

    def _top(self, probabilities: dict[int, float], count: int) -> dict[str, float]:
        skipped = int("top_logprobs_shifted" in self.on)
        ranked = sorted(probabilities, key=lambda token: -probabilities[token])[skipped : skipped + count]
        return {f"token_id:{token}": probabilities[token] for token in ranked}

    def _prompt_logprobs(self) -> list[Any] | None:
        if self._asked.body.get("prompt_logprobs") is None:
            return None
        prompt = self._asked.prompt[: -1 if "prompt_logprobs_short" in self.on else None]
        return [None, *({str(token): {"logprob": -float(token) / 1000, "rank": 1}} for token in prompt[1:])]
