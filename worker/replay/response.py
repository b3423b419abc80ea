"""From the raw reads of one request to its observation: how vLLM's answers are read.

Pure, and run after the replay. Times are those of the reads that completed an event.
"""

from typing import Any

import httptools
from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.vocabulary import NS_PER_MS, Outcome
from worker.replay.exchange import Ending, Exchange
from worker.replay.sse import SseEvent, SseParser

HTTP_OK = 200
DONE = "[DONE]"
ERROR_CHARS = 500


_GIVEN_UP = {
    Ending.UNSENT: (Outcome.NOT_SENT, "the replay ended before it could be sent"),
    Ending.REFUSED: (Outcome.CONNECT_REFUSED, "the connection was refused"),
    Ending.DEADLINE: (Outcome.DEADLINE_MISS, "not finished when the client gave up"),
    Ending.CANCELED: (Outcome.CLIENT_CANCEL, "the replay was canceled"),
}


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Message(_Lenient):
    content: str | None = None


class _Choice(_Lenient):
    """A completion's ``text``, a chat chunk's ``delta`` or a chat answer's ``message``."""

    text: str | None = None
    delta: _Message | None = None
    message: _Message | None = None
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None

    @property
    def written(self) -> str:
        message = self.delta or self.message
        return (message.content if message else self.text) or ""


class _PromptDetails(_Lenient):
    cached_tokens: int | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Metrics(_Lenient):
    queue_time_ms: float | None = None
    speculative_decoding: SpeculationCounts | None = None


class _Error(_Lenient):
    message: str = "the server reported an error without a message"


class _Payload(_Lenient):
    """One event of a stream, or a whole plain answer."""

    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    metrics: _Metrics | None = None
    error: _Error | str | None = None


class _Http:
    """What httptools calls back; collects the status and the body of each read."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.is_stream = False
        self.body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, chunk: bytes) -> bytes:
        """The body bytes in this read."""
        self.body = []
        self._parser.feed_data(chunk)
        return b"".join(self.body)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.is_stream = value.lower().startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body.append(body)


class _Answer:
    """What has been understood of one answer so far."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, int]] = []
        self.token_ids: list[int] = []
        self.text: list[str] = []
        self.finish_reason: str | None = None
        self.usage = _Usage()
        self.metrics = _Metrics()
        self.done = False
        self.error: str | None = None

    def take_event(self, event: SseEvent, at_ns: int) -> None:
        if event.data == DONE:
            self.done = True
        else:
            self.take(event.data.encode(), at_ns)

    def take(self, payload_json: bytes, at_ns: int) -> None:
        try:
            payload = _Payload.model_validate_json(payload_json)
        except ValidationError as error:
            self.error = self.error or f"not a completion: {error.errors()[0]['msg']}"
            return
        if payload.error is not None:
            self.error = self.error or (payload.error if isinstance(payload.error, str) else payload.error.message)
        for choice in payload.choices[:1]:
            self._take_choice(choice, at_ns)
        self.usage = payload.usage or self.usage
        self.metrics = payload.metrics or self.metrics

    def _take_choice(self, choice: _Choice, at_ns: int) -> None:
        # Text may be empty while tokens are not: a token can end inside a character.
        if choice.token_ids:
            self.chunks.append((at_ns, len(choice.token_ids)))
            self.token_ids.extend(choice.token_ids)
        self.text.append(choice.written)
        self.finish_reason = choice.finish_reason or self.finish_reason


def observe(exchange: Exchange) -> RequestObservation:
    """What the client saw of one request, from its raw reads."""
    http, answer = _Http(), _Answer()
    body = _read_all(exchange, http, answer)
    outcome, error = _judge(exchange, http, answer, body)
    return RequestObservation(
        request_id=exchange.request_id,
        outcome=outcome,
        due_ns=exchange.due_ns,
        sent_ns=exchange.sent_ns,
        first_byte_ns=exchange.reads[0][0] if exchange.reads else None,
        end_ns=exchange.end_ns,
        chunk_ns=tuple(at_ns for at_ns, _ in answer.chunks),
        chunk_tokens=tuple(count for _, count in answer.chunks),
        token_ids=tuple(answer.token_ids),
        text="".join(answer.text),
        finish_reason=answer.finish_reason,
        http_status=http.status,
        error=error,
        **_reported(answer),
    )


def _read_all(exchange: Exchange, http: _Http, answer: _Answer) -> bytes:
    """Feed every read; returns the body of an answer that is not an event stream."""
    events, plain = SseParser(), bytearray()
    for at_ns, chunk in exchange.reads:
        try:
            body = http.feed(chunk)
        except httptools.HttpParserError as error:
            answer.error = f"not HTTP: {error}"
            break
        if http.is_stream:
            for event in events.feed(body):
                answer.take_event(event, at_ns)
        else:
            plain += body
    if plain and http.status == HTTP_OK:
        answer.take(bytes(plain), exchange.reads[-1][0])
        answer.done = exchange.ending is Ending.COMPLETE
    return bytes(plain)


def _judge(exchange: Exchange, http: _Http, answer: _Answer, body: bytes) -> tuple[Outcome, str | None]:
    """The first of these that holds; an answer is a success only when it said that it was finished."""
    if http.status is not None and http.status != HTTP_OK:
        return Outcome.HTTP_ERROR, _error_of(body)
    if answer.error is not None:
        return Outcome.STREAM_ERROR, answer.error
    if exchange.ending in _GIVEN_UP:
        outcome, default = _GIVEN_UP[exchange.ending]
        return outcome, exchange.error or default
    if answer.finish_reason is None or not answer.done:
        missing = "finish_reason" if answer.finish_reason is None else DONE
        return Outcome.TRUNCATED, f"the answer ended without {missing}; {exchange.error or 'the message was complete'}"
    return Outcome.SUCCESS, None


def _error_of(body: bytes) -> str:
    try:
        error = _Payload.model_validate_json(body).error
    except ValidationError:
        error = None
    if isinstance(error, _Error):
        return error.message
    return error or body[:ERROR_CHARS].decode("utf-8", "replace")


def _reported(answer: _Answer) -> dict[str, Any]:
    """What the engine says of the request itself."""
    details, queue_ms = answer.usage.prompt_tokens_details, answer.metrics.queue_time_ms
    return {
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
        "cached_tokens": details.cached_tokens if details else None,
        "queue_time_ns": None if queue_ms is None else round(queue_ms * NS_PER_MS),
        "speculation": answer.metrics.speculative_decoding,
    }
