"""A server without a model: OpenAI's completions stream on any schedule of chunks, with a referee's log.

The replay engine is calibrated against it: what the client measured must be what this
server wrote down. Request field ``null_schedule``: ``[[delay_ms, tokens], …]``, one pair a chunk.
"""

import argparse
import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import uvloop

from worker.replay.clock import monotonic_ns
from worker.replay.loopback import Call, Reply, listen

MODEL = "null"
DEFAULT_TOKENS = 16
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScriptedChunk:
    """``delay_ns`` counts from the chunk before (the first: from the arrival)."""

    delay_ns: int
    token_ids: tuple[int, ...]
    text: str


@dataclass(slots=True)
class RefereeEntry:
    """What really happened to one request, on the monotonic clock; it grows with each chunk written."""

    request_id: str
    arrived_ns: int
    departed_ns: list[int] = field(default_factory=list[int])
    chunk_tokens: list[int] = field(default_factory=list[int])


Schedule = Callable[[Call, dict[str, Any]], tuple[ScriptedChunk, ...]]
"""From a request and its JSON body to the chunks of its answer."""


def schedule_of_body(_call: Call, body: dict[str, Any]) -> tuple[ScriptedChunk, ...]:
    """``null_schedule`` of the body, or ``max_tokens`` chunks of one token at once."""
    pairs = body.get("null_schedule") or [[0, 1]] * int(body.get("max_tokens") or DEFAULT_TOKENS)
    chunks: list[ScriptedChunk] = []
    first = 0
    for delay_ms, tokens in pairs:
        token_ids = tuple(range(first, first + int(tokens)))
        chunks.append(ScriptedChunk(round(delay_ms * _NS_PER_MS), token_ids, "".join(f" {i}" for i in token_ids)))
        first += int(tokens)
    return tuple(chunks)


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


class NullEngine:
    """Answers completions and chat by the schedule; ``GET /referee`` returns the log, ``DELETE`` empties it."""

    def __init__(self, schedule: Schedule = schedule_of_body) -> None:
        self._schedule = schedule
        self.log: list[RefereeEntry] = []

    async def answer(self, call: Call, reply: Reply) -> None:
        match (call.method, call.path):
            case ("POST", "/v1/completions"):
                await self._complete(call, reply, chunk_payload)
            case ("POST", "/v1/chat/completions"):
                await self._complete(call, reply, chat_chunk_payload)
            case ("GET", "/referee"):
                reply.send_json(200, [asdict(entry) for entry in self.log])
            case ("DELETE", "/referee"):
                self.log.clear()
                reply.send_json(200, [])
            case ("GET", "/health"):
                reply.send(200, b"")
            case ("GET", "/v1/models"):
                reply.send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            case _:
                reply.send_json(404, {"error": {"message": "Not Found", "code": 404}})

    async def _complete(self, call: Call, reply: Reply, payload_of: Callable[..., str]) -> None:
        chunks = self._schedule(call, json.loads(call.body))
        entry = RefereeEntry(call.headers.get("x-request-id", ""), call.arrived_ns)
        self.log.append(entry)
        reply.open_stream()
        due_ns = call.arrived_ns
        for chunk in chunks:
            due_ns += chunk.delay_ns
            await sleep_until(due_ns)
            finish_reason = "length" if chunk is chunks[-1] else None
            payload = payload_of(entry.request_id, MODEL, chunk.text, chunk.token_ids, finish_reason=finish_reason)
            entry.departed_ns.append(reply.event(payload))
            entry.chunk_tokens.append(len(chunk.token_ids))
        reply.event(usage_payload(entry.request_id, MODEL, 0, sum(entry.chunk_tokens), None), "[DONE]")
        reply.close_stream()


async def sleep_until(at_ns: int) -> None:
    """Sleep to a moment of the monotonic clock, so that delays do not add up."""
    left_ns = at_ns - monotonic_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / 1e9)


async def _serve(arguments: argparse.Namespace) -> None:
    server = await listen(NullEngine().answer, socket_path=arguments.uds, host=arguments.host, port=arguments.port)
    address = server.sockets[0].getsockname()
    print("listening", address if isinstance(address, str) else address[1], flush=True)  # noqa: T201  (the starter waits for it)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="null-engine", description=__doc__)
    parser.add_argument("--uds", help="unix socket to listen on")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free port")
    uvloop.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
