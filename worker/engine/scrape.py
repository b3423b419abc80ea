"""What the server says of itself over its unix socket: metrics, and its resolved configuration.

Scrapes are kept as text while a replay runs and parsed afterwards, so that they cost the
measured host as little as they can.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from app.domain.evidence import Failure
from app.domain.exposition import RUNNING, WAITING, Exposition, parse_exposition, sampled
from app.domain.launch import PINNED_ENVIRONMENT
from app.domain.series import Series
from app.domain.vocabulary import FailureClass

PERIOD_S = 1.0
QUIET_PERIOD_S = 0.2
QUIET_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 30.0
VOLATILE_KEYS = frozenset({"instance_id"})
"""Different in every process by design, so no part of a configuration."""


class ScrapeFailed(Exception):
    """The server could not be asked, or did not come to rest; ``failure`` says which."""

    def __init__(self, failure_class: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(failure_class=failure_class, message=message)


@dataclass(frozen=True)
class Scrape:
    """One answer of ``/metrics``; parsed when it is asked for, since that costs the measured host more than reading."""

    monotonic_ns: int
    text: str

    @cached_property
    def exposition(self) -> Exposition:
        """The samples. Raises ``EvidenceRefused`` for what is no exposition."""
        return parse_exposition(self.text)


def client(socket_path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> httpx.AsyncClient:
    """A client of the server behind the socket; the host name in its URLs has no meaning.

    Every request has a connection of its own: a server that is busy closes idle ones just as they are used again.
    """
    alone = httpx.Limits(max_keepalive_connections=0)
    # no TLS: spares reading the certificates
    transport = httpx.AsyncHTTPTransport(uds=socket_path, verify=False, limits=alone)
    return httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=timeout_s)


async def scrape(socket_path: str) -> Scrape:
    """One scrape of ``/metrics``. Raises ``ScrapeFailed`` where the server does not answer."""
    async with client(socket_path) as engine:
        return await _scrape(engine)


async def quiesced(socket_path: str, timeout_s: float = QUIET_TIMEOUT_S) -> Scrape:
    """A scrape of a server at rest: nothing running or waiting, and every counter as in the scrape before.

    Raises ``ScrapeFailed`` (HANG) if that does not happen within ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    async with client(socket_path) as engine:
        before = await _scrape(engine)
        while time.monotonic() < deadline:
            await asyncio.sleep(QUIET_PERIOD_S)
            now = await _scrape(engine)
            if _at_rest(now.exposition) and now.exposition.counters() == before.exposition.counters():
                return now
            before = now
    raise ScrapeFailed(FailureClass.HANG, f"the engine did not come to rest within {timeout_s:g} s")


def _at_rest(exposition: Exposition) -> bool:
    return exposition.value(RUNNING) == exposition.value(WAITING) == 0


async def _scrape(engine: httpx.AsyncClient) -> Scrape:
    at_ns = time.monotonic_ns()
    return Scrape(at_ns, await _get(engine, "/metrics"))


def series_of(scrapes: Sequence[Scrape], started_monotonic_ns: int) -> tuple[Series, ...]:
    """The scrapes as series on the clock of a replay that began at ``started_monotonic_ns``."""
    return sampled([(scrape.monotonic_ns - started_monotonic_ns, scrape.exposition) for scrape in scrapes])


def write_scrapes(path: Path, scrapes: Sequence[Scrape]) -> None:
    """The scrapes as they came, one JSON object a line: its monotonic time and its text."""
    with path.open("w") as file:
        for one in scrapes:
            file.write(f"{json.dumps({'monotonic_ns': one.monotonic_ns, 'text': one.text})}\n")


async def server_info(socket_path: str) -> dict[str, str]:
    """The resolved configuration as ``section.key`` → value; of the server's environment only what is pinned.

    The first call takes seconds, and fails in a runtime without pip: vLLM lists its packages to answer.
    """
    async with client(socket_path) as engine:
        answer = json.loads(await _get(engine, "/server_info?config_format=json"))
    environment = {name: value for name, value in answer.get("vllm_env", {}).items() if name in PINNED_ENVIRONMENT}
    return flatten(answer["vllm_config"]) | flatten(environment, "env.")


def flatten(section: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested sections as dotted keys; values that are not text are JSON. Volatile keys are dropped."""
    flat: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        elif key not in VOLATILE_KEYS:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return flat


async def _get(engine: httpx.AsyncClient, path: str) -> str:
    try:
        response = await engine.get(path)
    except httpx.HTTPError as error:
        message = f"{path} was not answered ({type(error).__name__})"
        raise ScrapeFailed(FailureClass.ENGINE_DEAD, message) from error
    if not response.is_success:
        raise ScrapeFailed(
            FailureClass.ENGINE_DEAD, f"{path} was answered with {response.status_code}; its log says why"
        )
    return response.text


class Sampler:
    """Adds a scrape each second to ``scrapes`` while it is entered; one that fails leaves a gap in the times.

    ``told`` is called after each.
    """

    def __init__(
        self,
        socket_path: str,
        scrapes: list[Scrape],
        period_s: float = PERIOD_S,
        *,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket_path = socket_path
        self._period_s = period_s
        self._scrapes = scrapes
        self._told = told
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._sample())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def newest(self) -> str | None:
        """The text of the newest scrape."""
        return self._scrapes[-1].text if self._scrapes else None

    async def _sample(self) -> None:
        due = time.monotonic()
        async with client(self._socket_path) as engine:
            while True:
                with suppress(ScrapeFailed):
                    self._scrapes.append(await _scrape(engine))
                    self._told()
                due = max(due + self._period_s, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
