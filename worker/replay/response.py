"""From the raw reads of one request to its observation: how vLLM's answers are read.

Times are those of the reads that completed an event. All but the answers that a later turn needs is
read after the replay.
"""

import httptools

from app.domain.observation import RequestObservation
from app.domain.stall import STALL_NS, stall_ns
from app.domain.vocabulary import NS_PER_S, Outcome
from worker.replay.answer import DONE, Answer
from worker.replay.exchange import Ending, Exchange
from worker.replay.payload import error_in, legible
from worker.replay.sse import SseParser

HTTP_OK = 200

_GIVEN_UP = {
    Ending.UNSENT: (Outcome.NOT_SENT, "the replay ended before it could be sent"),
    Ending.REFUSED: (Outcome.CONNECT_REFUSED, "the connection was refused"),
    Ending.DEADLINE: (Outcome.DEADLINE_MISS, "not finished when the client gave up"),
    Ending.CANCELED: (Outcome.CLIENT_CANCEL, "the replay was canceled"),
}


class _Http:
    """What httptools calls back: the status and the body of the one message that an answer is."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.is_stream = False
        self.error: str | None = None
        """What is not HTTP; nothing after it is read."""
        self._is_complete = False
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, chunk: bytes) -> bytes:
        """The body bytes in this read, up to the first error."""
        try:
            self._parser.feed_data(chunk)
        except httptools.HttpParserUpgrade:
            self.error = self.error or "not HTTP: the server switched protocols"
        except httptools.HttpParserError as error:
            self.error = self.error or f"not HTTP: {error}"
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    def on_message_begin(self) -> None:
        if self._is_complete:
            self.error = "not HTTP: more bytes after the end of the answer"

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status is None and name.lower() == b"content-type":
            self.is_stream = value.lower().startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        if self.error is not None:
            return
        status = self._parser.get_status_code()
        self.status = status if status >= HTTP_OK else None  # below: only the announcement of an answer
        self.is_stream = self.is_stream and status == HTTP_OK

    def on_body(self, body: bytes) -> None:
        if self.error is None:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = self.status is not None


class AnswerReader:
    """Feed it the reads of one exchange in order, then say how it ended."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.first_byte_ns: int | None = None
        self._plain = bytearray()
        """The body of an answer that is not an event stream."""
        self._http = _Http()
        self._events = SseParser()
        self._last_ns = 0
        """Of the plain body."""

    @property
    def status(self) -> int | None:
        """The HTTP status, once it is known."""
        return self._http.status

    def feed(self, at_ns: int, chunk: bytes) -> None:
        """One read."""
        if self.first_byte_ns is None:
            self.first_byte_ns = at_ns
        body = self._http.feed(chunk)
        if self._http.is_stream:
            for event in self._events.feed(body):
                self.answer.take_event(event, at_ns)
        elif body:
            self._plain += body
            self._last_ns = at_ns

    def end(self, ending: Ending) -> None:
        """A plain answer is one payload, complete when the message is."""
        if self._plain and self.status == HTTP_OK and ending is Ending.COMPLETE:
            self.answer.take(bytes(self._plain), self._last_ns)
            self.answer.done = True

    def said(self, ending: Ending) -> str | None:
        """The text of an answer that is a success; ``None`` of any other."""
        self.end(ending)
        outcome, _ = self.verdict(ending, None)
        return self.answer.text if outcome is Outcome.SUCCESS else None

    def verdict(self, ending: Ending, error: str | None) -> tuple[Outcome, str | None]:
        """The first of these that holds; an answer is a success only when it said that it was finished."""
        answer = self.answer
        if self.status not in {None, HTTP_OK}:
            plain = bytes(self._plain)
            return Outcome.HTTP_ERROR, error_in(plain) or legible(plain)
        if (fault := answer.error or self._http.error) is not None:
            return Outcome.STREAM_ERROR, fault
        if ending in _GIVEN_UP:
            outcome, default = _GIVEN_UP[ending]
            return outcome, error or default
        if answer.finish_reason is None or not answer.done:
            missing = "finish_reason" if answer.finish_reason is None else DONE.decode()
            return Outcome.TRUNCATED, f"the answer ended without {missing}; {error or 'the message was complete'}"
        if (contradiction := answer.contradiction) is not None:
            return Outcome.STREAM_ERROR, contradiction
        return Outcome.SUCCESS, None


def observe(exchange: Exchange) -> RequestObservation:
    """What the client saw of one request, from its raw reads."""
    reader = AnswerReader()
    for at_ns, chunk in exchange.reads:
        reader.feed(at_ns, chunk)
    return observation(exchange, reader)


def observation(exchange: Exchange, reader: AnswerReader) -> RequestObservation:
    """What the client saw of one request whose reads ``reader`` was fed; those of the exchange are not looked at."""
    reader.end(exchange.ending)
    answer = reader.answer
    outcome, error = _outcome(exchange, reader)
    return RequestObservation(
        request_id=exchange.request_id,
        outcome=outcome,
        due_ns=exchange.due_ns,
        sent_ns=exchange.sent_ns,
        first_byte_ns=reader.first_byte_ns,
        end_ns=exchange.end_ns,
        chunk_ns=tuple(answer.chunk_ns),
        chunk_tokens=tuple(answer.chunk_tokens),
        token_ids=tuple(answer.token_ids),
        text=answer.text,
        reasoning=answer.reasoning,
        tool_calls=answer.tool_calls,
        logprobs=tuple(answer.logprobs),
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        queue_time_ns=answer.queue_time_ns,
        speculation=answer.speculation,
        http_status=reader.status,
        error=error,
    )


def _outcome(exchange: Exchange, reader: AnswerReader) -> tuple[Outcome, str | None]:
    outcome, error = reader.verdict(exchange.ending, exchange.error)
    if outcome is not Outcome.DEADLINE_MISS or exchange.end_ns is None:
        return outcome, error
    silence_ns = stall_ns(reader.answer.chunk_ns, exchange.end_ns)
    return (outcome, error) if silence_ns is None else (Outcome.STALL, _stood_still(silence_ns))


def _stood_still(silence_ns: int) -> str:
    silence, least = (f"{value / NS_PER_S:.3f} s" for value in (silence_ns, STALL_NS))
    return f"the answer stood still: no chunk for {silence} before the client gave up; a stall is {least} or more"
