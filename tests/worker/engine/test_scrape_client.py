import asyncio
import tempfile
from collections.abc import AsyncGenerator

import pytest

from worker.engine.scrape import client

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
async def forgetful() -> AsyncGenerator[str]:
    """A server that answers once on a connection and closes it when it is used again, as a busy one does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        await reader.read(1)
        writer.close()

    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        path = f"{directory}/s"
        async with await asyncio.start_unix_server(serve, path):
            yield path


async def test_no_connection_is_used_twice(forgetful: str) -> None:
    async with client(forgetful) as engine:
        answers = [(await engine.get("/anything")).text for _ in range(3)]
    assert answers == ["ok"] * 3
