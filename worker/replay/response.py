"""From the raw reads of one request to its observation: how vLLM's answers are read.

Times are those of the reads that completed an event. All but the answers that a later turn needs is
read after the replay.
"""

import httptools

from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, Outcome
from worker.replay.answer import DONE, Answer, error_in
from worker.replay.exchange import Ending, Exchange
from worker.replay.sse import SseParser

HTTP_OK = 200
ERROR_CHARS = 500

_GIVEN_UP = {
    Ending.UNSENT: (Outcome.NOT_SENT, "the replay ended before it could be sent"),
    Ending.REFUSED: (Outcome.CONNECT_REFUSED, "the connection was refused"),
    Ending.DEADLINE: (Outcome.DEADLINE_MISS, "not finished when the client gave up"),
    Ending.CANCELED: (Outcome.CLIENT_CANCEL, "the replay was canceled"),
}


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


class AnswerReader:
    """Feed it the reads of one exchange in order, then say how it ended."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.plain = bytearray()
        """The body of an answer that is not an event stream."""
        self._http = _Http()
        self._events = SseParser()
        self._last_ns = 0

    @property
    def status(self) -> int | None:
        """The HTTP status, once it is known."""
        return self._http.status

    def feed(self, at_ns: int, chunk: bytes) -> None:
        """One read; after bytes that are not HTTP nothing more is read."""
        if self.answer.error is not None and self.answer.error.startswith("not HTTP"):
            return
        self._last_ns = at_ns
        try:
            body = self._http.feed(chunk)
        except httptools.HttpParserError as error:
            self.answer.error = f"not HTTP: {error}"
            return
        if self._http.is_stream:
            for event in self._events.feed(body):
                self.answer.take_event(event, at_ns)
        else:
            self.plain += body

    def end(self, ending: Ending) -> None:
        """A plain answer is one payload, complete when the message is."""
        if self.plain and self.status == HTTP_OK:
            self.answer.take(bytes(self.plain), self._last_ns)
            self.answer.done = ending is Ending.COMPLETE

    def said(self, ending: Ending) -> str | None:
        """The text of an answer that is a success; ``None`` of any other."""
        self.end(ending)
        outcome, _ = self.verdict(ending, None)
        return self.answer.text if outcome is Outcome.SUCCESS else None

    def verdict(self, ending: Ending, error: str | None) -> tuple[Outcome, str | None]:
        """The first of these that holds; an answer is a success only when it said that it was finished."""
        if self.status is not None and self.status != HTTP_OK:
            return Outcome.HTTP_ERROR, error_in(bytes(self.plain)) or self.plain[:ERROR_CHARS].decode(
                "utf-8", "replace"
            )
        if self.answer.error is not None:
            return Outcome.STREAM_ERROR, self.answer.error
        if ending in _GIVEN_UP:
            outcome, default = _GIVEN_UP[ending]
            return outcome, error or default
        if self.answer.finish_reason is None or not self.answer.done:
            missing = "finish_reason" if self.answer.finish_reason is None else DONE
            return Outcome.TRUNCATED, f"the answer ended without {missing}; {error or 'the message was complete'}"
        return Outcome.SUCCESS, None


def observe(exchange: Exchange) -> RequestObservation:
    """What the client saw of one request, from its raw reads."""
    reader = AnswerReader()
    for at_ns, chunk in exchange.reads:
        reader.feed(at_ns, chunk)
    reader.end(exchange.ending)
    outcome, error = reader.verdict(exchange.ending, exchange.error)
    answer, queue_ms = reader.answer, reader.answer.metrics.queue_time_ms
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
        text=answer.text,
        reasoning=answer.reasoning,
        tool_calls=answer.tool_calls,
        logprobs=tuple(answer.logprobs),
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.usage.prompt_tokens,
        completion_tokens=answer.usage.completion_tokens,
        cached_tokens=answer.usage.cached_tokens,
        queue_time_ns=None if queue_ms is None else round(queue_ms * NS_PER_MS),
        speculation=answer.metrics.speculative_decoding,
        http_status=reader.status,
        error=error,
    )
