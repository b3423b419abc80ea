"""vLLM's answers as types, read strictly, since a wrong token is worse than none.

What has not the promised type, or could not be stored, is refused. Typed dictionaries, since they are read in half the
time of models.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic reads typing's own from Python 3.12 only

from app.domain.strict_json import INTEGER_MAX

ERROR_CHARS = 500
"""Of a server's own words; some echo the whole prompt."""

_Count = Annotated[int, Field(ge=0, lt=INTEGER_MAX)]
_Counts = Annotated[list[_Count], Field(fail_fast=True)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Milliseconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]
"""In nanoseconds it still fits 64 bits."""

_Word = Annotated[str, StringConstraints(pattern=r"^[ -~]{0,64}$")]


class _Function(TypedDict, total=False):
    name: str | None
    arguments: str | None


class ToolCall(TypedDict, total=False):
    """A whole call, or a piece of one: pieces of the same ``index`` belong together."""

    index: _Count
    id: str | None
    function: _Function | None


class Message(TypedDict, total=False):
    content: str | None
    reasoning: str | None
    reasoning_content: str | None
    """What older engines call ``reasoning``."""
    tool_calls: list[ToolCall] | None


class _TokenLogprob(TypedDict):
    logprob: _Finite


class Logprobs(TypedDict, total=False):
    """Chat gives one entry a token in ``content``, completions a list in ``token_logprobs``."""

    content: list[_TokenLogprob] | None
    token_logprobs: list[_Finite | None] | None


class Choice(TypedDict, total=False):
    """A completion's ``text``, a chat chunk's ``delta`` or a chat answer's ``message``."""

    index: Literal[0]
    text: str | None
    delta: Message | None
    message: Message | None
    token_ids: _Counts | None
    logprobs: Logprobs | None
    finish_reason: _Word | None


class _PromptDetails(TypedDict, total=False):
    cached_tokens: _Count | None


class Usage(TypedDict, total=False):
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


class Metrics(TypedDict, total=False):
    queue_time_ms: _Milliseconds | None
    speculative_decoding: _Speculation | None


class _Error(TypedDict, total=False):
    message: str | None


class Payload(TypedDict, total=False):
    """One event of a stream, or a whole plain answer."""

    choices: Annotated[list[Choice], Field(max_length=1)]
    usage: Usage | None
    metrics: Metrics | None
    error: _Error | str | None


_PAYLOAD = TypeAdapter(Payload).validator


class NotAPayload(ValueError):
    """What is wrong and where, without the bytes that were read."""


def read_payload(payload_json: bytes) -> Payload:
    """Raises ``NotAPayload``."""
    try:
        return _PAYLOAD.validate_json(payload_json, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise NotAPayload(f"{where}: {first['msg']}" if where else first["msg"]) from None


def words_of_error(payload: Payload) -> str | None:
    """The server's words, where it reports an error."""
    error = payload.get("error")
    if error is None:
        return None
    said = error if isinstance(error, str) else error.get("message")
    return (said or "the server reported an error without a message")[:ERROR_CHARS]


def error_in(body: bytes) -> str | None:
    """The message of an error object; ``None`` where ``body`` is none."""
    try:
        return words_of_error(read_payload(body))
    except NotAPayload:
        return None


def legible(body: bytes) -> str:
    """The beginning of what a server said in a form of its own."""
    return body[:ERROR_CHARS].decode("utf-8", "replace")
