"""A minimal HTTP/1.1 server on a unix socket or a loopback port, for engines without a model.

It stamps when a request's last byte was read and when each event was written, on the clock
that the client uses; a general framework would hide both moments.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

from worker.replay.clock import monotonic_ns

BACKLOG = 2048
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Header names are lower case; ``arrived_ns`` is on the monotonic clock."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    arrived_ns: int


class Reply:
    """The way back of one request: one plain answer, or a stream of events."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.ended = False

    def send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """A whole answer."""
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self.ended = True

    def send_json(self, status: int, value: Any) -> None:
        self.send(status, json.dumps(value).encode())

    def open_stream(self) -> None:
        """The head of an event stream."""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def event(self, *payloads: str) -> int:
        """Write events as one HTTP chunk; returns the moment just before the write."""
        body = "".join(f"data: {payload}\n\n" for payload in payloads).encode()
        departed_ns = monotonic_ns()
        self._transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return departed_ns

    def close_stream(self) -> None:
        self._transport.write(b"0\r\n\r\n")
        self.ended = True

    def abort(self) -> None:
        """Drop the connection in the middle of the answer, after what was written has gone out."""
        self._transport.close()
        self.ended = True


Answer = Callable[[Call, Reply], Awaitable[None]]


class _Connection(asyncio.Protocol):
    """Parses requests and answers each in its own task; a client that leaves cancels its task."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_at_ns = 0
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface without the base class.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self._read_at_ns = monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport:
                self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        url = urlsplit(self._url.decode("latin-1"))
        method = self._parser.get_method().decode("latin-1")
        call = Call(method, url.path, url.query, self._headers, b"".join(self._body), self._read_at_ns)
        self._url, self._headers, self._body = b"", {}, []
        task = asyncio.get_running_loop().create_task(self._run(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: Call) -> None:
        if self._transport is None:
            return
        reply = Reply(self._transport)
        try:
            await self._answer(call, reply)
        finally:
            if not reply.ended:
                reply.abort()


async def listen(
    answer: Answer, *, socket_path: str | None = None, host: str = "127.0.0.1", port: int = 0
) -> asyncio.Server:
    """Start serving; raises ``OSError`` where the address cannot be bound."""
    loop = asyncio.get_running_loop()
    if socket_path is not None:
        return await loop.create_unix_server(lambda: _Connection(answer), socket_path, backlog=BACKLOG)
    return await loop.create_server(lambda: _Connection(answer), host, port, backlog=BACKLOG)


async def sleep_until(at_ns: int) -> None:
    """Sleep to a moment of the monotonic clock, so that delays do not add up."""
    left_ns = at_ns - monotonic_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / 1e9)
