"""Defects of speculation as they show in answers, seeded by whoever stands between a client and an engine.

A spoilt answer agrees with itself, text with token ids and both with the usage, as a real engine's would: what
finds it must know what the target would have said.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Words = Callable[[Sequence[int]], str]
"""The text of tokens."""
Payload = dict[str, Any]

ORDINARY_FROM = 1000
"""Below it a vocabulary may have bytes and special tokens."""
_UNDECODABLE = "\ufffd"
_OTHER_REASON = {"stop": "length", "length": "stop"}


class Kind(StrEnum):
    """What goes wrong."""

    NONE = "none"
    TOKEN_SWAPPED = "one token swapped"
    STOP_LEAKED = "stop string leaked"
    LAST_DROPPED = "last token dropped"
    FINISH_CHANGED = "finish reason changed"
    ARGMAX_ACCEPTED = "draft argmax accepted too often"
    TEMPERATURE_SHIFTED = "temperature shifted"


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect. ``chance`` is of each request, drawn by ``seed``; the last two kinds touch sampled requests only."""

    kind: Kind = Kind.NONE
    chance: float = 1.0
    only_concurrent: bool = False
    """Only while the server has other requests: single ones are answered well."""
    position: int = 37
    """Of the swapped token, counted from 0."""
    factor: float = 1.05
    """Of the temperature."""
    seed: int = 0

    def spoils(self, chance: random.Random) -> bool:
        """Whether the next request meets the defect."""
        return self.kind is not Kind.NONE and chance.random() < self.chance

    def asked(self, body: Payload) -> Payload:
        """The request as the engine gets it; the same object where nothing of it changes."""
        temperature = body.get("temperature", 1.0)
        if self.kind is Kind.TEMPERATURE_SHIFTED and temperature > 0:
            return body | {"temperature": temperature * self.factor}
        if self.kind is Kind.ARGMAX_ACCEPTED and temperature > 0:
            return body | {"temperature": 0.0}
        return body


@dataclass(slots=True)
class Spoiler:
    """Spoils one answer, payload by payload in the order in which they come."""

    defect: Defect
    words: Words
    is_crowded: Callable[[], bool]
    _seen: Counter[int] = field(default_factory=Counter[int])
    """Choice → its tokens so far."""
    _dropped: int = 0

    def spoil(self, payload_json: bytes) -> bytes:
        """The payload with its part of the defect; the same bytes where it has none."""
        payload: Payload = json.loads(payload_json)
        choices: list[Payload] = payload.get("choices") or []
        changed = [self._spoil_choice(choice) for choice in choices]
        usage = payload.get("usage")
        if usage and self._dropped:
            for name in usage.keys() & {"completion_tokens", "total_tokens"}:
                usage[name] -= self._dropped
        if not any(changed) and not (usage and self._dropped):
            return payload_json
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()

    def _spoil_choice(self, choice: Payload) -> bool:
        before = self._seen[choice.get("index", 0)]
        self._seen[choice.get("index", 0)] += len(choice.get("token_ids") or ())
        if self.defect.only_concurrent and not self.is_crowded():
            return False
        match self.defect.kind:
            case Kind.TOKEN_SWAPPED:
                return self._swap(choice, self.defect.position - before)
            case Kind.LAST_DROPPED:
                return self._drop_last(choice)
            case Kind.FINISH_CHANGED:
                return _change_finish(choice)
            case Kind.STOP_LEAKED:
                return _leak_stop(choice)
            case _:
                return False

    def _swap(self, choice: Payload, at: int) -> bool:
        token_ids: list[int] = choice.get("token_ids") or []
        if not 0 <= at < len(token_ids):
            return False
        pieces = [self.words([token]) for token in token_ids]
        is_plain = "".join(pieces) == _text(choice)
        token_ids[at] = self._another(token_ids[at])
        pieces[at] = self.words([token_ids[at]])
        if is_plain:  # else a character or a stop string lies across tokens, and the text stays
            _set_text(choice, "".join(pieces))
        _rename_logprob(choice, at, pieces[at])
        return True

    def _another(self, token: int) -> int:
        """The nearest other token that is whole text."""
        step = -1 if token > ORDINARY_FROM else 1
        before, token = self.words([token]), token + step
        while (said := self.words([token])) in ("", before) or _UNDECODABLE in said:
            token += step
        return token

    def _drop_last(self, choice: Payload) -> bool:
        token_ids: list[int] = choice.get("token_ids") or []
        if choice.get("finish_reason") is None or not token_ids:
            return False
        last, text = self.words([token_ids.pop()]), _text(choice)
        if last and text.endswith(last):
            _set_text(choice, text.removesuffix(last))
        _drop_logprob(choice)
        self._dropped += 1
        return True


def _change_finish(choice: Payload) -> bool:
    other = _OTHER_REASON.get(choice.get("finish_reason") or "")
    if other is None:
        return False
    choice["finish_reason"], choice["stop_reason"] = other, None
    return True


def _leak_stop(choice: Payload) -> bool:
    """The engine names the string that ended an answer as its ``stop_reason``."""
    stopped_by = choice.get("stop_reason")
    if not isinstance(stopped_by, str):
        return False
    _set_text(choice, _text(choice) + stopped_by)
    return True


def _text(choice: Payload) -> str:
    return choice.get("text") or _message(choice).get("content") or ""


def _set_text(choice: Payload, text: str) -> None:
    if "text" in choice:
        choice["text"] = text
    else:
        _message(choice)["content"] = text


def _message(choice: Payload) -> Payload:
    return choice.get("delta") or choice.get("message") or {}


def _rename_logprob(choice: Payload, at: int, said: str) -> None:
    logprobs: Payload = choice.get("logprobs") or {}
    if logprobs.get("tokens"):
        logprobs["tokens"][at] = said
    elif logprobs.get("content"):
        logprobs["content"][at]["token"] = said


def _drop_logprob(choice: Payload) -> None:
    for values in (choice.get("logprobs") or {}).values():
        if values:
            values.pop()
