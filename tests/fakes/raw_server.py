"""A server that writes prepared bytes in prepared pieces, for what no well-behaved server sends."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

PAUSE_S = 0.002
"""Between two pieces, so that most of them are a read of their own."""


@asynccontextmanager
async def raw_server(socket_path: str, answers: Mapping[str, Sequence[bytes]]) -> AsyncGenerator[None, None]:
    """Serve ``answers`` by request id on ``socket_path``. A connection is closed after its answer."""
    server = await asyncio.start_unix_server(lambda r, w: _serve(r, w, answers), socket_path)
    async with server:
        yield


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: Mapping[str, Sequence[bytes]]
) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):  # a client that leaves, or a spare never used
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        await reader.readexactly(int(headers["content-length"]))
        for piece in answers[headers["x-request-id"]]:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(PAUSE_S)
    writer.close()
