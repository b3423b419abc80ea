"""A relay in front of a server that passes one stream as it is and cuts others, each in its own way.

Which way is said by the request's id, so that one replay of the product's client sees them all.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

import httpx

from worker.engine.scrape import client
from worker.replay.sse import SseParser

TIMEOUT_S = 240.0
DONE = b"[DONE]"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class Cut(StrEnum):
    """What is taken from a stream."""

    NOTHING = "nothing"
    SECOND_HALF = "second half"
    """The connection is closed in the middle."""
    DONE = "done"
    """Everything else comes, and the message is complete."""
    FINISH_REASON = "finish_reason"
    """Events from the one with the finish_reason on; then the end as ever."""


RELAYED = {
    "no-cut": Cut.NOTHING,
    "cut-in-the-middle": Cut.SECOND_HALF,
    "no-done": Cut.DONE,
    "no-finish-reason": Cut.FINISH_REASON,
}
"""Request id → what becomes of its stream."""


@asynccontextmanager
async def relay(socket_path: str, engine_path: str, cuts: Mapping[str, Cut]) -> AsyncGenerator[None]:
    """Serve on ``socket_path`` what the engine at ``engine_path`` answers, less what is cut."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, httpx.HTTPError):
            while not writer.is_closing():
                await _pass_one(reader, writer, engine_path, cuts)
        writer.close()

    server = await asyncio.start_unix_server(serve, socket_path)
    try:
        yield
    finally:
        server.close()


async def _pass_one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, engine_path: str, cuts: Mapping[str, Cut]
) -> None:
    """One request of a kept connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    events = await _events(engine_path, head[0].split()[1], body)
    cut = cuts[headers["x-request-id"]]
    left = _left(events, cut)
    writer.write(_HEAD + b"".join(_chunk(event) for event in left))
    if cut is not Cut.SECOND_HALF:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    if cut is Cut.SECOND_HALF:
        writer.close()


async def _events(engine_path: str, path: str, body: bytes) -> list[bytes]:
    parser, events = SseParser(), list[bytes]()
    headers = {"Content-Type": "application/json"}
    async with (
        client(engine_path, TIMEOUT_S) as engine,
        engine.stream("POST", path, content=body, headers=headers) as response,
    ):
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            events += [event.data for event in parser.feed(chunk)]
    return events


def _left(events: list[bytes], cut: Cut) -> list[bytes]:
    """What is passed on."""
    if cut is Cut.SECOND_HALF:
        return events[: len(events) // 2]
    if cut is Cut.DONE:
        return [event for event in events if event != DONE]
    if cut is Cut.FINISH_REASON:
        return [event for event in events if b'"finish_reason":"' not in event.replace(b": ", b":")]
    return events


def _chunk(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)
