"""What has been understood of one answer so far: completions and chat, streamed or whole.

Nothing after the first error counts.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from app.domain.canonical import canonical_json
from app.domain.observation import SpeculationCounts
from app.domain.vocabulary import NS_PER_MS
from worker.replay.payload import (
    Choice,
    Logprobs,
    Message,
    Metrics,
    NotAPayload,
    ToolCall,
    Usage,
    error_in,
    legible,
    read_payload,
    words_of_error,
)
from worker.replay.sse import SseEvent

DONE = b"[DONE]"
_ERROR_EVENT = b"error"


class Answer:
    """Grows with each event. ``chunk_ns`` and ``chunk_tokens`` are of those that carried something of the answer."""

    def __init__(self) -> None:
        self.chunk_ns: list[int] = []
        self.chunk_tokens: list[int] = []
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason: str | None = None
        self.done = False
        self.error: str | None = None
        self._usage: Usage = {}
        self._metrics: Metrics = {}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}

    @property
    def text(self) -> str:
        """What is said to the user."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """What was thought before, where the engine tells the two apart."""
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> str:
        """The assembled calls as canonical JSON, ``[{"arguments":…,"id":…,"name":…}]``; empty where there is none."""
        calls: list[JsonValue] = [{**self._calls[index]} for index in sorted(self._calls)]
        return canonical_json(calls).decode() if calls else ""

    @property
    def prompt_tokens(self) -> int | None:
        return self._usage.get("prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        return self._usage.get("completion_tokens")

    @property
    def cached_tokens(self) -> int | None:
        return (self._usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    @property
    def queue_time_ns(self) -> int | None:
        queue_ms = self._metrics.get("queue_time_ms")
        return None if queue_ms is None else round(queue_ms * NS_PER_MS)

    @property
    def speculation(self) -> SpeculationCounts | None:
        counts = self._metrics.get("speculative_decoding")
        if counts is None:
            return None
        return SpeculationCounts.model_validate({name: value for name, value in counts.items() if value is not None})

    @property
    def contradiction(self) -> str | None:
        """Where tokens were lost or came twice, although every event was well formed."""
        counted = self.completion_tokens
        if self.token_ids and 0 in self.chunk_tokens:
            return "some of its chunks have token ids and some have none"
        if self.token_ids and counted is not None and counted != len(self.token_ids):
            return f"it has {len(self.token_ids)} token ids, and its usage counts {counted}"
        return None

    def take_event(self, event: SseEvent, at_ns: int) -> None:
        """One event of a stream; nothing that follows an error is read."""
        if self.error is not None:
            return
        if self.done:
            self.error = "the stream went on after [DONE]"
        elif event.data == DONE:
            self.done = True
        elif event.event == _ERROR_EVENT:
            self.error = error_in(event.data) or legible(event.data)
        else:
            self.take(event.data, at_ns)

    def take(self, payload_json: bytes, at_ns: int) -> None:
        """One payload; what is no answer is kept as ``error``."""
        try:
            payload = read_payload(payload_json)
        except NotAPayload as error:
            self.error = f"not a completion: {error}"
            return
        choices = payload.get("choices")
        if "error" in payload and (words := words_of_error(payload)) is not None:
            self.error = words
        elif choices is None:
            self.error = "not a completion: it has neither choices nor an error"
        elif choices:
            self._take_choice(choices[0], at_ns)
        self._usage = payload.get("usage") or self._usage
        self._metrics = payload.get("metrics") or self._metrics

    def _take_choice(self, choice: Choice, at_ns: int) -> None:
        carries = _carries(choice)
        if "text" not in choice and "delta" not in choice and "message" not in choice:
            self.error = "not a completion: its choice has neither text nor delta nor message"
            return
        if carries and self.finish_reason is not None:
            self.error = "the answer went on after its finish_reason"
            return
        if carries:
            token_ids = choice.get("token_ids") or []
            self.chunk_ns.append(at_ns)
            self.chunk_tokens.append(len(token_ids))
            self.token_ids += token_ids
        self._take_words(choice)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _take_words(self, choice: Choice) -> None:
        if text := choice.get("text"):
            self._text.append(text)
        if message := choice.get("delta") or choice.get("message"):
            self._take_message(message, is_whole=choice.get("message") is not None)
        if logprobs := choice.get("logprobs"):
            self.logprobs += _values(logprobs)

    def _take_message(self, message: Message, *, is_whole: bool) -> None:
        if content := message.get("content"):
            self._text.append(content)
        if reasoning := message.get("reasoning") or message.get("reasoning_content"):
            self._reasoning.append(reasoning)
        for position, piece in enumerate(message.get("tool_calls") or ()):
            self._take_call(piece, position if is_whole else piece.get("index", 0))

    def _take_call(self, piece: ToolCall, index: int) -> None:
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _carries(choice: Choice) -> bool:
    """Whether a part of the answer is in it: tokens, or words where the server gives no token ids.

    Text may be empty while tokens are not, since a token can end inside a character. How many tokens a chunk without
    ids has is only known from the usage.
    """
    token_ids = choice.get("token_ids")
    if token_ids is not None:
        return bool(token_ids)
    message = choice.get("delta") or choice.get("message") or {}
    said = (message.get(name) for name in ("content", "reasoning", "reasoning_content", "tool_calls"))
    return bool(choice.get("text")) or any(said)


def _values(logprobs: Logprobs) -> Sequence[float]:
    content = logprobs.get("content")
    if content is not None:
        return [entry["logprob"] for entry in content]
    return [value for value in logprobs.get("token_logprobs") or () if value is not None]
