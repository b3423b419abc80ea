"""What has been understood of one answer so far: completions and chat, streamed or whole, in vLLM's words.

Read strictly, since a wrong token is worse than none: what has not the promised type, or could not be stored, is an
error, and nothing after the first error counts. Typed dictionaries, since they are read in half the time of models.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic reads typing's own from Python 3.12 only

from app.domain.canonical import canonical_json
from app.domain.observation import SpeculationCounts
from app.domain.strict_json import INTEGER_MAX
from app.domain.vocabulary import NS_PER_MS
from worker.replay.sse import SseEvent

DONE = b"[DONE]"
ERROR_CHARS = 500
"""Of a server's own words; some echo the whole prompt."""

_ERROR_EVENT = b"error"

_Count = Annotated[int, Field(ge=0, lt=INTEGER_MAX)]
_Counts = Annotated[list[_Count], Field(fail_fast=True)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Milliseconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]
"""In nanoseconds it still fits 64 bits."""

_Word = Annotated[str, StringConstraints(pattern=r"^[ -~]{0,64}$")]


class _Function(TypedDict, total=False):
    name: str | None
    arguments: str | None


class _ToolCall(TypedDict, total=False):
    """A whole call, or a piece of one: pieces of the same ``index`` belong together."""

    index: _Count
    id: str | None
    function: _Function | None


class _Message(TypedDict, total=False):
    content: str | None
    reasoning: str | None
    reasoning_content: str | None
    """What older engines call ``reasoning``."""
    tool_calls: list[_ToolCall] | None


class _TokenLogprob(TypedDict):
    logprob: _Finite


class _Logprobs(TypedDict, total=False):
    """Chat gives one entry a token in ``content``, completions a list in ``token_logprobs``."""

    content: list[_TokenLogprob] | None
    token_logprobs: list[_Finite | None] | None


class _Choice(TypedDict, total=False):
    """A completion's ``text``, a chat chunk's ``delta`` or a chat answer's ``message``."""

    index: Literal[0]
    text: str | None
    delta: _Message | None
    message: _Message | None
    token_ids: _Counts | None
    logprobs: _Logprobs | None
    finish_reason: _Word | None


class _PromptDetails(TypedDict, total=False):
    cached_tokens: _Count | None


class _Usage(TypedDict, total=False):
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    prompt_tokens_details: _PromptDetails | None


class _Speculation(TypedDict):
    """The fields of ``SpeculationCounts``, as they may be stored."""

    num_spec_steps: _Count
    num_draft_tokens: _Count
    num_accepted_draft_tokens: _Count
    acceptance_histogram: NotRequired[_Counts | None]
    per_step_accepted: NotRequired[_Counts | None]
    per_step_drafted: NotRequired[_Counts | None]


class _Metrics(TypedDict, total=False):
    queue_time_ms: _Milliseconds | None
    speculative_decoding: _Speculation | None


class _Error(TypedDict, total=False):
    message: str | None


class _Payload(TypedDict, total=False):
    """One event of a stream, or a whole plain answer."""

    choices: Annotated[list[_Choice], Field(max_length=1)]
    usage: _Usage | None
    metrics: _Metrics | None
    error: _Error | str | None


_PAYLOAD = TypeAdapter(_Payload).validator


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
        self._usage: _Usage = {}
        self._metrics: _Metrics = {}
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
            payload: _Payload = _PAYLOAD.validate_json(payload_json, strict=True)
        except ValidationError as error:
            self.error = f"not a completion: {_first(error)}"
            return
        choices = payload.get("choices")
        if payload.get("error") is not None:
            self.error = _words(payload)
        elif choices is None:
            self.error = "not a completion: it has neither choices nor an error"
        elif choices:
            self._take_choice(choices[0], at_ns)
        self._usage = payload.get("usage") or self._usage
        self._metrics = payload.get("metrics") or self._metrics

    def _take_choice(self, choice: _Choice, at_ns: int) -> None:
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

    def _take_words(self, choice: _Choice) -> None:
        if text := choice.get("text"):
            self._text.append(text)
        if message := choice.get("delta") or choice.get("message"):
            self._take_message(message, is_whole=choice.get("message") is not None)
        if logprobs := choice.get("logprobs"):
            self.logprobs += _values(logprobs)

    def _take_message(self, message: _Message, *, is_whole: bool) -> None:
        if content := message.get("content"):
            self._text.append(content)
        if reasoning := message.get("reasoning") or message.get("reasoning_content"):
            self._reasoning.append(reasoning)
        for position, piece in enumerate(message.get("tool_calls") or ()):
            self._take_call(piece, position if is_whole else piece.get("index", 0))

    def _take_call(self, piece: _ToolCall, index: int) -> None:
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def error_in(body: bytes) -> str | None:
    """The message of an error object; ``None`` where ``body`` is none."""
    try:
        payload: _Payload = _PAYLOAD.validate_json(body, strict=True)
    except ValidationError:
        return None
    return _words(payload) if payload.get("error") is not None else None


def legible(body: bytes) -> str:
    """The beginning of what a server said in a form of its own."""
    return body[:ERROR_CHARS].decode("utf-8", "replace")


def _carries(choice: _Choice) -> bool:
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


def _values(logprobs: _Logprobs) -> Sequence[float]:
    content = logprobs.get("content")
    if content is not None:
        return [entry["logprob"] for entry in content]
    return [value for value in logprobs.get("token_logprobs") or () if value is not None]


def _words(payload: _Payload) -> str:
    error = payload.get("error")
    said = error if isinstance(error, str) else (error or {}).get("message")
    return (said or "the server reported an error without a message")[:ERROR_CHARS]


def _first(error: ValidationError) -> str:
    """Where it is and what it is, without the bytes that were read."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
