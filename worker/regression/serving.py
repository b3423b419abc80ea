"""A subject's server: started when a case first needs it, and anew after it died."""

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import httpx

from app.domain.evidence import Failure
from worker.engine.log_file import read_log
from worker.engine.log_lines import find_cause
from worker.engine.scrape import client
from worker.engine.server import StartupFailed, VllmServer
from worker.regression.subject import Subject

REQUEST_TIMEOUT_S = 30.0
CANARY_TIMEOUT_S = 600.0
ERRORS = 3
"""Of the log, to be shown where nothing names a cause."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where logs are kept, and what servers of the runtime share."""

    logs: Path
    model_facts: Path
    startup_timeout_s: float


class Serving:
    """An asynchronous context manager that leaves no server behind."""

    def __init__(self, subject: Subject, where: Whereabouts) -> None:
        self.subject = subject
        self.failure: Failure | None = None
        """Why it did not start; it is not tried again."""
        self._where = where
        self._server: VllmServer | None = None
        self._stack = AsyncExitStack()
        self._starts = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def running(self) -> VllmServer | None:
        """The server, unless none was started or it was stopped."""
        return self._server

    async def server(self) -> VllmServer | None:
        """A server that answers; ``None`` where it did not start, which ``failure`` tells."""
        if self._server is not None and not await _is_well(self._server):
            await self.stop()
        if self._server is None and self.failure is None:
            await self._start()
        return self._server

    async def stop(self) -> None:
        """Stop it and everything of it; the next case gets a fresh one."""
        self._server = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def last_words(self) -> str:
        """What the log says of a death, or the last error in it; nothing where it has none."""
        if self._server is None:
            return ""
        log = read_log(self._server.log_path)
        errors = [line for line in log.splitlines() if " ERROR " in line]
        return find_cause(log) or _without_stamp(errors[-ERRORS:])

    async def _start(self) -> None:
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vd-")))
        self._starts += 1
        name = self.subject.name.replace(", ", "-")
        server = VllmServer(
            self.subject.launch(scratch),
            self._where.logs / f"{name}-{self._starts}.log",
            tag=f"check:{uuid4()}",
            startup_timeout_s=self._where.startup_timeout_s,
            canary_timeout_s=CANARY_TIMEOUT_S,
            model_facts_path=self._where.model_facts,
        )
        try:
            self._server = await self._stack.enter_async_context(server)
        except StartupFailed as failed:
            self.failure = failed.failure


def _without_stamp(lines: Sequence[str]) -> str:
    """Error lines less the process, the time and the place that wrote them."""
    return "; ".join(line.partition("] ")[2] or line for line in lines)


async def _is_well(server: VllmServer) -> bool:
    """An engine that fails takes its API server with it, but not at once; its health says so before."""
    if not server.alive():
        return False
    try:
        async with client(server.socket_path, REQUEST_TIMEOUT_S) as engine:
            return (await engine.get("/health")).is_success
    except httpx.HTTPError:
        return False
