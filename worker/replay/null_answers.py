"""What a server without a model says: OpenAI's shapes as vLLM writes them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MODEL = "null"
RESPONSE_ID = "cmpl-null"
DEFAULT_TOKENS = 16

_NS_PER_MS = 1_000_000
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunk_payload(
    response_id: str,
    model: str,
    text: str,
    token_ids: tuple[int, ...] | None,
    *,
    finish_reason: str | None = None,
    prompt_token_ids: tuple[int, ...] | None = None,
) -> str:
    """One chunk of a completions stream as vLLM writes it."""
    choice: dict[str, Any] = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
    choice |= {"stop_reason": None, "prompt_token_ids": prompt_token_ids, "token_ids": token_ids}
    return json.dumps(_envelope(response_id, model) | {"choices": [choice]}, separators=(",", ":"))


def chat_chunk_payload(
    response_id: str,
    model: str,
    text: str,
    token_ids: tuple[int, ...] | None,
    *,
    finish_reason: str | None = None,
    prompt_token_ids: tuple[int, ...] | None = None,
) -> str:
    """One chunk of a chat stream as vLLM writes it."""
    choice: dict[str, Any] = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish_reason}
    choice |= {"stop_reason": None, "token_ids": token_ids}
    tail: dict[str, Any] = {"choices": [choice]} | ({"prompt_token_ids": prompt_token_ids} if prompt_token_ids else {})
    envelope = _envelope(response_id, model) | {"object": "chat.completion.chunk"}
    return json.dumps(envelope | tail, separators=(",", ":"))


def usage_payload(
    response_id: str, model: str, prompt_tokens: int, completion_tokens: int, metrics: dict[str, Any] | None
) -> str:
    """The last chunk: no choices, the usage and, where the engine reports them, the request's metrics."""
    tail = {"choices": [], "usage": usage(prompt_tokens, completion_tokens)}
    payload = _envelope(response_id, model) | tail | ({"metrics": metrics} if metrics is not None else {})
    return json.dumps(payload, separators=(",", ":"))


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _envelope(response_id: str, model: str) -> dict[str, Any]:
    return {"id": response_id, "object": "text_completion", "created": 0, "model": model}


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes of one answer. Frame ``i`` is due ``due_ns[i]`` after the request's arrival."""

    frames: tuple[bytes, ...]
    due_ns: tuple[int, ...]
    is_chunk: tuple[bool, ...]
    """Whether the frame carries tokens; head and end of a stream do not."""
    chunk_tokens: tuple[int, ...] = ()


class AnswerBook:
    """Answers by what is asked; those that are asked alike are put together once.

    Delays are milliseconds, for requests without a schedule of their own.
    """

    def __init__(self, ttft_ms: float = 0.0, gap_ms: float = 0.0) -> None:
        self._ttft_ms, self._gap_ms = ttft_ms, gap_ms
        self._streams: dict[Any, Answer] = {}

    def answer(self, path: str, body: bytes) -> Answer:
        """To a completion or chat request; one that cannot be read gets an error object."""
        try:
            asked = json.loads(body)
            tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or DEFAULT_TOKENS)
            pairs = asked.get("null_schedule") or ((self._ttft_ms, 1), *[(self._gap_ms, 1)] * (tokens - 1))
            schedule = tuple((round(delay_ms * _NS_PER_MS), int(count)) for delay_ms, count in pairs)
            key = (path, schedule, bool(asked.get("stream", True)), _prompt_tokens(asked))
        except (ValueError, TypeError, AttributeError) as error:
            return plain(400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}})
        if key not in self._streams:
            self._streams[key] = _stream(*key)
        return self._streams[key]

    @staticmethod
    def page(path: str) -> Answer:
        """What clients look for before they begin."""
        if path == "/health":
            return plain(200, {})
        if path == "/v1/models":
            return plain(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "null"}]})
        return not_found()


def plain(status: int, value: Any) -> Answer:
    """A whole answer at once."""
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return Answer((head.encode() + b"\r\n\r\n" + body,), (0,), (False,))


def not_found() -> Answer:
    return plain(404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}})


def _prompt_tokens(asked: dict[str, Any]) -> int:
    """Any number will do, as long as it is one: ids, or words."""
    prompt = asked.get("prompt")
    return len(prompt if isinstance(prompt, list) else str(prompt or asked.get("messages")).split())


def _stream(path: str, schedule: tuple[tuple[int, int], ...], streams: bool, prompt_tokens: int) -> Answer:  # noqa: FBT001
    is_chat = path.endswith("/chat/completions")
    counts = tuple(count for _, count in schedule)
    due_ns = tuple(accumulate(delay_ns for delay_ns, _ in schedule))
    if not streams:
        whole = plain(200, _whole(is_chat, sum(counts), prompt_tokens))
        return Answer(whole.frames, (due_ns[-1],), (True,), (sum(counts),))
    chunks = tuple(_event(payload) for payload in _payloads(chat_chunk_payload if is_chat else chunk_payload, counts))
    end = _event(usage_payload(RESPONSE_ID, MODEL, prompt_tokens, sum(counts), None), "[DONE]") + b"0\r\n\r\n"
    return Answer(
        frames=(_STREAM_HEAD, *chunks, end),
        due_ns=(0, *due_ns, due_ns[-1]),
        is_chunk=(False, *[True] * len(chunks), False),
        chunk_tokens=counts,
    )


def _payloads(payload_of: Callable[..., str], counts: Sequence[int]) -> Iterator[str]:
    """Token ids count up from zero over the whole answer, so that a lost or doubled one shows."""
    first = 0
    for position, count in enumerate(counts, start=1):
        token_ids = tuple(range(first, first + count))
        first += count
        finish_reason = "length" if position == len(counts) else None
        yield payload_of(RESPONSE_ID, MODEL, _text(token_ids), token_ids, finish_reason=finish_reason)


def _text(token_ids: Iterable[int]) -> str:
    return "".join(f" {token_id}" for token_id in token_ids)


def _whole(is_chat: bool, tokens: int, prompt_tokens: int) -> dict[str, Any]:  # noqa: FBT001
    said = _text(range(tokens))
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length", "token_ids": tuple(range(tokens))}
    choice |= {"message": {"role": "assistant", "content": said}} if is_chat else {"text": said}
    return _envelope(RESPONSE_ID, MODEL) | {"choices": [choice], "usage": usage(prompt_tokens, tokens)}


def _event(*payloads: str) -> bytes:
    """Events in one chunk of HTTP's own, as uvicorn writes them."""
    body = "".join(f"data: {payload}\n\n" for payload in payloads).encode()
    return b"%x\r\n%b\r\n" % (len(body), body)
