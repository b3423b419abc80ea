"""What has been understood of one answer so far: completions and chat, streamed or whole, in vLLM's words."""

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from app.domain.canonical import canonical_json
from app.domain.observation import SpeculationCounts
from worker.replay.sse import SseEvent

DONE = "[DONE]"


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Function(_Lenient):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(_Lenient):
    """A whole call, or a piece of one: pieces of the same ``index`` belong together."""

    index: int = 0
    id: str | None = None
    function: _Function = _Function()


class _Message(_Lenient):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """What older engines call ``reasoning``."""
    tool_calls: tuple[_ToolCall, ...] | None = None


class _TokenLogprob(_Lenient):
    logprob: float


class _Logprobs(_Lenient):
    """Chat gives one entry a token in ``content``, completions a list in ``token_logprobs``."""

    content: tuple[_TokenLogprob, ...] | None = None
    token_logprobs: tuple[float | None, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        if self.content is not None:
            return tuple(entry.logprob for entry in self.content)
        return tuple(value for value in self.token_logprobs if value is not None)


class _Choice(_Lenient):
    """A completion's ``text``, a chat chunk's ``delta`` or a chat answer's ``message``."""

    text: str | None = None
    delta: _Message | None = None
    message: _Message | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None

    @property
    def said(self) -> _Message:
        return self.delta or self.message or _Message(content=self.text)


class _PromptDetails(_Lenient):
    cached_tokens: int | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        return self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None


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


class Answer:
    """Grows with each event. ``chunks`` are (when, how many tokens) of those that carried something of the answer."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, int]] = []
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason: str | None = None
        self.usage = _Usage()
        self.metrics = _Metrics()
        self.done = False
        self.error: str | None = None
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

    def take_event(self, event: SseEvent, at_ns: int) -> None:
        if event.data == DONE:
            self.done = True
        else:
            self.take(event.data.encode(), at_ns)

    def take(self, payload_json: bytes, at_ns: int) -> None:
        """One payload; what is no answer is kept as ``error``."""
        try:
            payload = _Payload.model_validate_json(payload_json)
        except ValidationError as error:
            self.error = self.error or f"not a completion: {error.errors()[0]['msg']}"
            return
        if payload.error is not None:
            self.error = self.error or _words(payload.error)
        for choice in payload.choices[:1]:
            self._take_choice(choice, at_ns)
        self.usage = payload.usage or self.usage
        self.metrics = payload.metrics or self.metrics

    def _take_choice(self, choice: _Choice, at_ns: int) -> None:
        said = choice.said
        reasoning = said.reasoning or said.reasoning_content or ""
        # Text may be empty while tokens are not: a token can end inside a character. A server that gives no token
        # ids still has its chunks timed; how many tokens they carried is then only known from the usage.
        if choice.token_ids or (choice.token_ids is None and (said.content or reasoning or said.tool_calls)):
            self.chunks.append((at_ns, len(choice.token_ids or ())))
        self.token_ids.extend(choice.token_ids or ())
        self.logprobs.extend(choice.logprobs.values if choice.logprobs else ())
        self._text.append(said.content or "")
        self._reasoning.append(reasoning)
        for position, piece in enumerate(said.tool_calls or ()):
            self._take_call(piece, position if choice.message else piece.index)
        self.finish_reason = choice.finish_reason or self.finish_reason

    def _take_call(self, piece: _ToolCall, index: int) -> None:
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or piece.id or ""
        call["name"] += piece.function.name or ""
        call["arguments"] += piece.function.arguments or ""


def error_in(body: bytes) -> str | None:
    """The message of an error object; ``None`` where ``body`` is none."""
    try:
        error = _Payload.model_validate_json(body).error
    except ValidationError:
        return None
    return _words(error) if error is not None else None


def _words(error: _Error | str) -> str:
    return error if isinstance(error, str) else error.message
