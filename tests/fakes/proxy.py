"""A proxy on a unix socket between a client and an engine: byte for byte, but for the answers that meet a defect.

Requests are expected one at a time on a connection, as every client here sends them.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import httptools

from tests.fakes.defects import Defect, Spoiler, Words
from tests.fakes.loopback import BACKLOG

SPOILT_PATHS = (b"/v1/completions", b"/v1/chat/completions")
READ_BYTES = 1 << 16
HTTP_OK = 200
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?i)(\r\ncontent-length: *)\d+")
_EVENT_END = b"\n\n"
_DATA = b"data: "
_DONE = b"[DONE]"


@asynccontextmanager
async def proxied(upstream: str, socket_path: str, defect: Defect, words: Words) -> AsyncGenerator["Proxy", None]:
    """A proxy before the server on the socket ``upstream``, listening on ``socket_path`` while the block lasts."""
    proxy = Proxy(upstream, defect, words)
    server = await asyncio.start_unix_server(proxy.serve, socket_path, backlog=BACKLOG)
    try:
        yield proxy
    finally:
        server.close()
        proxy.leave()


class Proxy:
    """What all its connections share. ``spoilt`` counts the requests that met the defect."""

    def __init__(self, upstream: str, defect: Defect, words: Words) -> None:
        self.spoilt = 0
        self._upstream, self._defect, self._words = upstream, defect, words
        self._chance = random.Random(defect.seed)
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; where the engine does not listen yet, or no longer, it is closed at once."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            with suppress(OSError):
                up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
                await _Connection(self, reader, writer, up_reader, up_writer).relay()
        finally:
            writer.close()

    def leave(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()

    def begin(self, path: bytes, body: bytes) -> tuple[bytes, "_Answer"]:
        """The request's body as the engine gets it, and what becomes of the answer."""
        if path not in SPOILT_PATHS:
            return body, _Answer()
        self._running += 1
        if not self._defect.spoils(self._chance):
            return body, _Answer(self._end)
        self.spoilt += 1
        asked = json.loads(body)
        told = self._defect.asked(asked)
        answer = _Answer(self._end, Spoiler(self._defect, self._words, lambda: self._running > 1))
        return (body if told is asked else json.dumps(told).encode()), answer

    def _end(self) -> None:
        self._running -= 1


class _Connection:
    """Both directions of one connection; it ends with the first of them."""

    def __init__(
        self,
        proxy: Proxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer, self._up_reader, self._up_writer = reader, writer, up_reader, up_writer
        self._answer = _Answer()

    async def relay(self) -> None:
        directions = [asyncio.ensure_future(self._ask()), asyncio.ensure_future(self._answer_all())]
        try:
            ended, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in ended:
                direction.result()
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self._answer.end()
            self._up_writer.close()

    async def _ask(self) -> None:
        request = _Request()
        while data := await self._reader.read(READ_BYTES):
            request.feed(data)
            if request.is_whole:
                body, self._answer = self._proxy.begin(request.path, request.body)
                self._up_writer.write(request.with_body(body))
                await self._up_writer.drain()
                request = _Request()

    async def _answer_all(self) -> None:
        while data := await self._up_reader.read(READ_BYTES):
            self._writer.write(self._answer.feed(data))
            await self._writer.drain()


class _Request:
    """One request, kept until it is whole."""

    def __init__(self) -> None:
        self.path, self.body, self.is_whole = b"", b"", False
        self._raw = b""
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        self._raw += data
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True

    def with_body(self, body: bytes) -> bytes:
        """As it came, or with another body."""
        return self._raw if body == self.body else _with_body(self._raw, body)


class _Answer:
    """One answer on its way: untouched without a spoiler, else event by event, or whole where it is no stream."""

    def __init__(self, at_end: Callable[[], None] | None = None, spoiler: Spoiler | None = None) -> None:
        self._at_end, self._spoiler = at_end, spoiler
        self._raw, self._body, self._out = b"", b"", b""
        self._streams = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """What is passed on of a read."""
        self._raw += b"" if self._streams or self._spoiler is None else data
        self._parser.feed_data(data)
        if self._spoiler is None:
            return data
        out, self._out = self._out, b""
        return out

    def end(self) -> None:
        """It is over, however it ended."""
        if self._at_end is not None:
            self._at_end()
        self._at_end = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._streams = value.startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        if self._streams and self._spoiler is not None:
            self._out += self._raw[: self._raw.index(_HEAD_END) + len(_HEAD_END)]

    def on_body(self, body: bytes) -> None:
        self._body += body
        if self._streams and self._spoiler is not None:
            *events, self._body = self._body.split(_EVENT_END)
            if told := b"".join(_spoilt_event(self._spoiler, event) + _EVENT_END for event in events):
                self._out += b"%x\r\n%b\r\n" % (len(told), told)

    def on_message_complete(self) -> None:
        if self._streams:
            self._out += b"0\r\n\r\n"
        elif self._spoiler is not None:
            body = self._spoiler.spoil(self._body) if self._parser.get_status_code() == HTTP_OK else self._body
            self._out += self._raw if body == self._body else _with_body(self._raw, body)
        self.end()


def _spoilt_event(spoiler: Spoiler, event: bytes) -> bytes:
    payload = event.removeprefix(_DATA)
    return event if payload in (event, _DONE) else _DATA + spoiler.spoil(payload)


def _with_body(raw: bytes, body: bytes) -> bytes:
    """The message with another body; it states its length, as all do that are no streams."""
    head = raw[: raw.index(_HEAD_END) + len(_HEAD_END)]
    return _LENGTH.sub(rb"\g<1>%d" % len(body), head) + body
