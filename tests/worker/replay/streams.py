"""Event streams as vLLM writes them with the HTTP around them: recorded ones and, where there are none, made ones."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.replay.exchange import Ending, Exchange, Read

FIXTURES = Path(__file__).parents[2] / "fixtures" / "engine"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def http_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def sse(payload: dict[str, Any] | str) -> bytes:
    """One event; characters are written as they are, as vLLM does."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def event(payload: dict[str, Any] | str) -> bytes:
    return http_chunk(sse(payload))


def exchange(*reads: bytes, ending: Ending = Ending.COMPLETE, **facts: Any) -> Exchange:
    """Reads one nanosecond apart, the first at 100."""
    stamped = tuple((100 + i, read) for i, read in enumerate(reads))
    return Exchange("r", 10, ending, sent_ns=20, end_ns=100 + len(reads), reads=stamped, **facts)


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of one answer, each as its bytes with the closing blank line."""

    events: tuple[bytes, ...]

    @property
    def wire(self) -> bytes:
        """As uvicorn writes it: every event an HTTP chunk."""
        return b"".join((STREAM_HEAD, *map(http_chunk, self.events), LAST_CHUNK))

    @property
    def ends(self) -> tuple[int, ...]:
        """How many bytes of ``wire`` have to be read until each event is complete."""
        ends, offset = list[int](), len(STREAM_HEAD)
        for body in self.events:
            whole = http_chunk(body)
            ends.append(offset + len(whole) - len(b"\r\n"))
            offset += len(whole)
        return tuple(ends)

    def rechunked(self, sizes: Sequence[int]) -> bytes:
        """The same body in HTTP chunks of these sizes, wherever that cuts."""
        body, chunks = b"".join(self.events), list[bytes]()
        for size in sizes:
            chunks.append(body[:size])
            body = body[size:]
        return b"".join((STREAM_HEAD, *(http_chunk(chunk) for chunk in (*chunks, body) if chunk), LAST_CHUNK))


def recorded_lines(name: str) -> list[tuple[float, bytes]]:
    """The events of a recorded stream, each with its time in seconds."""
    lines = (line.partition("\t") for line in (FIXTURES / name).read_text().splitlines())
    return [(float(seconds), f"{text}\n\n".encode()) for seconds, _, text in lines if text.startswith("data: ")]


def recorded_reads(name: str) -> tuple[Read, ...]:
    """A recorded stream, each event in a read of its own."""
    lines = recorded_lines(name)
    reads = [(round(seconds * 1e9), http_chunk(body)) for seconds, body in lines]
    return ((0, STREAM_HEAD), *reads, (reads[-1][0], LAST_CHUNK))


def recorded(name: str) -> Stream:
    return Stream(tuple(body for _, body in recorded_lines(name)))


def shortened(stream: Stream, kept: Sequence[int]) -> Stream:
    """These of its events and the last three as they are; only the usage counts what is left."""
    events = [stream.events[index] for index in kept]
    *last, usage, done = stream.events[-3:]
    tokens = sum(len(json.loads(body[6:])["choices"][0]["token_ids"]) for body in (*events, *last))
    document = json.loads(usage[6:])
    document["usage"]["completion_tokens"] = tokens
    return Stream((*events, *last, sse(document), done))


def made(*choices: dict[str, Any], chats: bool = True) -> Stream:
    """An answer of these choices, with the usage and the metrics that vLLM sends last."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk" if chats else "text_completion", "created": 1}
    envelope = {**head, "model": "m"}
    tokens = sum(len(choice.get("token_ids") or ()) for choice in choices)
    usage = {"prompt_tokens": 9, "total_tokens": 9 + tokens, "completion_tokens": tokens}
    last = {"choices": [], "usage": usage, "metrics": {"queue_time_ms": 0.25, "mean_itl_ms": None}}
    payloads = [envelope | {"choices": [{"index": 0, "logprobs": None, "finish_reason": None} | c]} for c in choices]
    return Stream((*map(sse, payloads), sse(envelope | last), DONE))


def _piece(index: int, arguments: str, **head: str) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": head["name"]} if head else {})
    call = {"index": index, "function": function} | ({"id": head["id"], "type": "function"} if head else {})
    return {"tool_calls": [call]}


CHAT = made(
    {"delta": {"role": "assistant", "content": ""}},
    {"delta": {"content": "é漢"}, "token_ids": [281, 290]},
    {"delta": {"content": ""}, "token_ids": [7]},
    {"delta": {"content": '😀\u2028"\\\x00'}, "token_ids": [8, 9, 10]},
    {"delta": {"content": "\ufffd ok"}, "token_ids": [4095], "finish_reason": "length", "stop_reason": None},
)
"""Characters of two, three and four bytes, a line separator that ends no line, NUL, and tokens without text."""

TOOLS = made(
    {"delta": {"role": "assistant", "content": ""}},
    {"delta": {"reasoning": "naïve "}, "token_ids": [1, 2]},
    {"delta": {"reasoning": "idea"}, "token_ids": [3], "logprobs": {"content": [{"token": "a", "logprob": -0.5}]}},
    {"delta": {}, "token_ids": [4]},
    {"delta": _piece(0, "", id="c1", name="find"), "token_ids": [5]},
    {"delta": _piece(0, '{"was": "Öl'), "token_ids": [6, 7]},
    {"delta": _piece(1, "{}", id="c2", name="stop"), "token_ids": [8]},
    {"delta": _piece(0, '"}'), "token_ids": [9], "finish_reason": "tool_calls"},
)

STREAMS = {
    "recorded, a draft model": shortened(recorded("draft_model_stream.sse.txt"), (1, 3, 5)),
    "recorded, the target alone": shortened(recorded("target_stream.sse.txt"), (1, 2)),
    "made, chat": CHAT,
    "made, tool calls": TOOLS,
}
"""Short enough to be cut everywhere."""
