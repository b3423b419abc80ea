"""The null engine as a process on the engine's cores, and what it wrote down of each request."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter

from app.domain.errors import DomainError

START_PATIENCE_S = 30.0
ANSWER_PATIENCE_S = 60.0
_ROOT = Path(__file__).resolve().parents[2]


class Seen(BaseModel):
    """One request as the null engine saw it; all stamps on the host's monotonic clock."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    request_id: str
    arrived_ns: int
    departed_ns: tuple[int, ...]
    chunk_tokens: tuple[int, ...]


_LOG = TypeAdapter(list[Seen])


class Referee:
    """An asynchronous context manager; the null engine lives as long as it is open."""

    def __init__(self, socket_path: Path, cores: tuple[int, ...]) -> None:
        self.socket_path = str(socket_path)
        self._cores = cores
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        cores = ",".join(map(str, self._cores))
        argv = (sys.executable, "-m", "worker.calibration.null_host", cores, self.socket_path)
        self._process = await asyncio.create_subprocess_exec(*argv, cwd=_ROOT, stdout=asyncio.subprocess.PIPE)
        with suppress(TimeoutError):
            if self._process.stdout and await asyncio.wait_for(self._process.stdout.readline(), START_PATIENCE_S):
                return self
        await self._end()
        raise DomainError.of("null_engine", "it did not start", "read what it said above, then try again")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def forget(self) -> None:
        """Begin a new log."""
        await self._ask("DELETE")

    async def log(self) -> list[Seen]:
        """Every request since ``forget``."""
        return _LOG.validate_json(await self._ask("GET"))

    async def _ask(self, method: str) -> bytes:
        transport = httpx.AsyncHTTPTransport(uds=self.socket_path, verify=False)  # no TLS: spares the certificates
        async with httpx.AsyncClient(transport=transport, base_url="http://null", timeout=ANSWER_PATIENCE_S) as client:
            try:
                answer = await client.request(method, "/referee")
            except httpx.HTTPError as error:
                message = f"it stopped answering ({type(error).__name__})"
                raise DomainError.of("null_engine", message, "try again") from error
        return answer.raise_for_status().content

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
