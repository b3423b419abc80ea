"""A completion or chat answer, whole or put together from its stream, with every choice and every logprob.

The product's client reads what a measurement needs; a regression suite needs the rest as well.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.regression.verdicts import Broken
from worker.replay.sse import SseParser

DONE = b"[DONE]"
IDS_SHOWN = 48

Top = Mapping[str, float]
"""Alternatives at one position: token → logprob."""


@dataclass(slots=True)
class Choice:
    """One answer of a request. ``chunks`` are the texts as they came; a whole answer has one."""

    index: int
    chunks: list[str] = field(default_factory=list[str])
    token_ids: list[int] = field(default_factory=list[int])
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: list[float] = field(default_factory=list[float])
    top: list[Top] = field(default_factory=list[Top])
    prompt_logprobs: list[Any] | None = None

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(self.chunks)

    @property
    def ending(self) -> tuple[str | None, int | str | None]:
        """Why it ended, and which stop string or token did it."""
        return self.finish_reason, self.stop_reason

    def __str__(self) -> str:
        more = " …" if len(self.token_ids) > IDS_SHOWN else ""
        ids = f"{len(self.token_ids)} tokens {self.token_ids[:IDS_SHOWN]}{more}"
        return f"finish_reason {self.finish_reason}, stop_reason {self.stop_reason}, {ids}, text {self.text!r}"


@dataclass(slots=True)
class Answer:
    """Everything that came back for one request."""

    choices: dict[int, Choice] = field(default_factory=dict[int, Choice])
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    done: bool = False

    @property
    def only(self) -> Choice:
        """The answer of a request for one. Raises ``Broken`` where there are others or none."""
        if list(self.choices) != [0]:
            raise Broken("the number of choices", expected="one, of index 0", found=sorted(self.choices))
        return self.choices[0]

    @property
    def completion_tokens(self) -> int | None:
        """As the usage counts them."""
        return self.usage.get("completion_tokens")

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that the prefix cache had."""
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)

    @property
    def last_accepted(self) -> int | None:
        """Draft tokens that the last speculative step accepted, where the engine says so of each request."""
        steps = (self.metrics.get("speculative_decoding") or {}).get("per_step_accepted")
        return steps[-1] if steps else None

    def __str__(self) -> str:
        said = "; ".join(f"[{index}] {self.choices[index]}" for index in sorted(self.choices))
        return f"usage {self.completion_tokens} tokens; {said}"

    def take(self, payload: Mapping[str, Any]) -> None:
        """One event of a stream, or a whole answer."""
        for told in payload.get("choices") or ():
            _take_choice(self.choices.setdefault(told["index"], Choice(told["index"])), told)
        self.usage = payload.get("usage") or self.usage
        self.metrics = payload.get("metrics") or self.metrics


def whole(body: bytes) -> Answer:
    """An answer that came at once."""
    answer = Answer(done=True)
    answer.take(json.loads(body))
    return answer


def assembled(reads: Iterable[bytes]) -> Answer:
    """An answer from the pieces of its stream. Raises ``Broken`` for an error in it and for what follows its end."""
    answer, parser = Answer(), SseParser()
    for chunk in reads:
        for event in parser.feed(chunk):
            if answer.done:
                raise Broken("the stream", expected="nothing after [DONE]", found=event.data)
            if event.data == DONE:
                answer.done = True
                continue
            payload = json.loads(event.data)
            if "error" in payload:
                raise Broken("the stream", expected="an answer", found=payload["error"])
            answer.take(payload)
    return answer


def _take_choice(choice: Choice, told: Mapping[str, Any]) -> None:
    message = told.get("delta") or told.get("message") or {}
    text, token_ids = told.get("text") or message.get("content") or "", told.get("token_ids") or ()
    if (text or token_ids) and choice.finish_reason is not None:
        raise Broken("the stream", expected="nothing of a choice after its finish_reason", found=told)
    if text:
        choice.chunks.append(text)
    choice.token_ids += token_ids
    choice.finish_reason = told.get("finish_reason") or choice.finish_reason
    if told.get("stop_reason") is not None:
        choice.stop_reason = told["stop_reason"]
    choice.prompt_logprobs = told.get("prompt_logprobs") or choice.prompt_logprobs
    _take_logprobs(choice, told.get("logprobs") or {})


def _take_logprobs(choice: Choice, told: Mapping[str, Any]) -> None:
    content: Sequence[Mapping[str, Any]] | None = told.get("content")
    if content is not None:
        choice.logprobs += [entry["logprob"] for entry in content]
        choice.top += [{one["token"]: one["logprob"] for one in entry.get("top_logprobs") or ()} for entry in content]
        return
    choice.logprobs += [value for value in told.get("token_logprobs") or () if value is not None]
    choice.top += [top for top in told.get("top_logprobs") or () if top is not None]
