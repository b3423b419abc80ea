"""One server under one case: what is sent, what comes back, and what target-only answered to the same request."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from app.domain.canonical import canonical_json, digest
from app.domain.exposition import Exposition
from worker.engine.scrape import client, quiesced, scrape
from worker.regression.answers import Answer, assembled, whole
from worker.regression.prompts import Prompts
from worker.regression.verdicts import Broken, EngineErred, EngineGone, EngineRefused, NotApplicable, excerpt

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
REQUEST_TIMEOUT_S = 240.0
TOLERANCES = {"float32": 2e-3}
TOLERANCE = 0.25
"""Of a logprob: two units of bfloat16 at a logit between 16 and 32; in float32 only the order of sums differs."""
STREAMED: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
IDS_SHOWN = 8
_HTTP_OK, _CLIENT_ERRORS = 200, range(400, 500)
_UNCOMPARED = ("model", "cache_salt")

Body = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """What the reference said, by request; a refusal is kept by its words."""

    answers: dict[str, Answer | str] = field(default_factory=dict[str, "Answer | str"])
    aborts_counted: float | None = None


@dataclass(slots=True)
class Exchange:
    """One request and what came back, for the evidence."""

    request: str
    response: str = ""


@dataclass(slots=True)
class Bench:
    """``is_reference``: this is the server that the others are compared with, so it is compared with itself."""

    socket_path: str
    model: str
    case: str
    k: int
    dtype: str
    vocabulary: int
    eos_ids: frozenset[int]
    max_model_len: int
    prompts: Prompts
    kept: Kept
    is_reference: bool
    patience_s: float = 60.0
    """For a server to come to rest or to begin."""
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    notes: list[str] = field(default_factory=list[str])
    """What makes a pass one, such as how many answers ended inside a draft."""

    @property
    def tolerance(self) -> float:
        """How far a logprob may be from target-only's."""
        return TOLERANCES.get(self.dtype, TOLERANCE)

    async def ask(self, body: Body, path: str = COMPLETIONS) -> Answer:
        """A whole answer. Raises ``EngineRefused`` (4xx), ``EngineErred``, ``EngineGone``, or ``Broken``."""
        answer = await self._send(body, path)
        self._check(answer, echoes=bool(body.get("echo")))
        return answer

    async def reference(self, body: Body, path: str = COMPLETIONS) -> Answer:
        """Target-only's answer to the same, asked once. Raises ``NotApplicable`` where it gave none."""
        key = _key(body, path)
        if self.is_reference and key not in self.kept.answers:
            self.kept.answers[key] = await self._ask_for_reference(body, path, key)
        kept = self.kept.answers.get(key, "it was not asked, or did not answer")
        if isinstance(kept, str):
            raise NotApplicable(f"target-only has no answer to compare with: {kept}")
        return kept

    async def both(self, body: Body, path: str = COMPLETIONS, *, is_control: bool = False) -> tuple[Answer, Answer]:
        """Target-only's answer and this server's, which must be the same; a control asks target-only twice."""
        expected = await self.reference(body, path)
        found = expected if self.is_reference and not is_control else await self.ask(body, path)
        same(found, expected)
        return expected, found

    async def stream(self, body: Body, path: str = COMPLETIONS) -> Answer:
        """The same answer as a stream with its usage. Raises as ``ask`` does, and ``Broken`` for a missing end."""
        async with self.streaming(body, path) as response:
            reads = [chunk async for chunk in response.aiter_bytes()]
        answer = assembled(reads)
        self.point_at(body, answer)
        if not answer.done:
            raise Broken("the stream", expected="[DONE] at its end", found=excerpt(b"".join(reads)[-200:]))
        self._check(answer, echoes=bool(body.get("echo")))
        return answer

    @asynccontextmanager
    async def streaming(self, body: Body, path: str = COMPLETIONS) -> AsyncGenerator[httpx.Response]:
        """The response of a stream, to be read or left; leaving closes the connection."""
        told = self._completed({**body, **STREAMED})
        try:
            async with (
                client(self.socket_path, REQUEST_TIMEOUT_S) as engine,
                engine.stream("POST", path, json=told) as response,
            ):
                if response.status_code != _HTTP_OK:
                    self._refuse(body, response.status_code, await response.aread())
                yield response
        except httpx.HTTPError as error:
            raise EngineGone(f"{type(error).__name__}: {error}") from error

    def streamed_body(self, body: Body) -> bytes:
        """The bytes of a streaming request, for a client of another kind."""
        return json.dumps(self._completed({**body, **STREAMED})).encode()

    async def metrics(self) -> Exposition:
        """The server's counters once it is at rest."""
        return (await quiesced(self.socket_path)).exposition

    async def metrics_now(self) -> Exposition:
        """The server's counters and gauges as they are."""
        return (await scrape(self.socket_path)).exposition

    def point_at(self, body: Body, response: object) -> None:
        """Make this exchange the last one, which is the evidence of the cell; others may have been sent meanwhile."""
        asked = _told(body)
        at = next(i for i, one in reversed(list(enumerate(self.exchanges))) if one.request == asked)
        exchange = self.exchanges.pop(at)
        exchange.response = excerpt(response)
        self.exchanges.append(exchange)

    def note(self, words: str) -> None:
        """Add to what a pass says of itself."""
        self.notes.append(words)

    async def _ask_for_reference(self, body: Body, path: str, key: str) -> Answer:
        try:
            return await self.ask(body, path)
        except EngineRefused as refused:
            self.kept.answers[key] = str(refused)
            raise

    async def _send(self, body: Body, path: str) -> Answer:
        told = self._completed(body)
        try:
            async with client(self.socket_path, REQUEST_TIMEOUT_S) as engine:
                response = await engine.post(path, json=told)
        except httpx.HTTPError as error:
            raise EngineGone(f"{type(error).__name__}: {error}") from error
        if response.status_code != _HTTP_OK:
            self._refuse(body, response.status_code, response.content)
        answer = whole(response.content)
        self.point_at(body, answer)
        return answer

    def _refuse(self, body: Body, status: int, content: bytes) -> None:
        words = _words(content)
        self.point_at(body, f"HTTP {status}: {words}")
        if status in _CLIENT_ERRORS:
            raise EngineRefused(status, words)
        raise EngineErred(f"HTTP {status}: {words}")

    def _completed(self, body: Body) -> Body:
        """With the model, and with a salt of its own, so that no request finds another's prefix by accident."""
        self.exchanges.append(Exchange(_told({name: value for name, value in body.items() if name not in STREAMED})))
        salt = f"{self.case}-{len(self.exchanges)}"  # the engine takes no slash
        return {"model": self.model, "cache_salt": salt, "return_token_ids": True, **body}

    def _check(self, answer: Answer, *, echoes: bool) -> None:
        """What holds of any answer: it is complete, its tokens exist, and its usage counts them."""
        for choice in answer.choices.values():
            if choice.finish_reason is None:
                raise Broken("the answer", expected=f"a finish_reason of choice {choice.index}", found=choice)
            strange = [token for token in choice.token_ids if not 0 <= token < self.vocabulary]
            if strange:
                raise Broken("token ids", expected=f"ids below {self.vocabulary}", found=strange)
        counted = sum(len(choice.token_ids) for choice in answer.choices.values())
        if not echoes and answer.completion_tokens != counted:
            raise Broken("the usage", expected=f"{counted} tokens, as there are ids", found=answer.completion_tokens)


def same(found: Answer, expected: Answer) -> None:
    """Every choice is the same, token for token. Raises ``Broken`` with the first difference."""
    if sorted(found.choices) != sorted(expected.choices):
        raise Broken("the choices", expected=sorted(expected.choices), found=sorted(found.choices))
    for index, choice in sorted(found.choices.items()):
        wanted = expected.choices[index]
        holds_tokens(choice.token_ids, wanted.token_ids)
        if (choice.text, choice.ending) != (wanted.text, wanted.ending):
            raise Broken("text or ending unlike target-only's", expected=wanted, found=choice)


def holds_tokens(found: Sequence[int], expected: Sequence[int]) -> None:
    """The same ids. Raises ``Broken`` with the place of the first difference."""
    if list(found) == list(expected):
        return
    pairs = enumerate(zip(found, expected, strict=False))
    first = next((at for at, (one, other) in pairs if one != other), min(len(found), len(expected)))
    what = f"token ids differ from position {first} on"
    raise Broken(what, expected=f"{len(expected)}: {list(expected)}", found=f"{len(found)}: {list(found)}")


def holds(what: str, found: object, expected: object) -> None:
    """The two are equal. Raises ``Broken``."""
    if found != expected:
        raise Broken(what, expected=expected, found=found)


def greedy(prompt: Sequence[int] | str, max_tokens: int, **more: Any) -> Body:
    """The body of a greedy completion."""
    asked = prompt if isinstance(prompt, str) else list(prompt)
    return {"prompt": asked, "max_tokens": max_tokens, "temperature": 0, **more}


def needs(count: object, reason: str) -> None:
    """The case has something to look at. Raises ``NotApplicable``."""
    if not count:
        raise NotApplicable(reason)


def _key(body: Mapping[str, Any], path: str) -> str:
    told = {name: value for name, value in body.items() if name not in _UNCOMPARED}
    return digest(canonical_json([path, told]))


def _told(body: Body) -> str:
    """The body for a reader: a prompt of ids by its first ones."""
    prompt: list[int] | str | None = body.get("prompt")
    is_long = isinstance(prompt, list) and len(prompt) > IDS_SHOWN
    shown = {**body, "prompt": f"{prompt[:IDS_SHOWN]} … {len(prompt)} ids"} if prompt and is_long else body
    return excerpt(json.dumps(shown, ensure_ascii=False))


def _words(content: bytes) -> str:
    try:
        told = json.loads(content)
        return str(told["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")
