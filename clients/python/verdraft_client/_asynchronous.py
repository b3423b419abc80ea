"""The client's own work, with calls that are awaited: sending again, downloading, following."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from verdraft_client import _core as core
from verdraft_client.models import ExperimentRead


class AsyncBase:
    """Without a ``url`` or ``token`` they are those of ``VERDRAFT_URL`` and ``VERDRAFT_TOKEN``."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: core.Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**core.options(url, token), transport=transport)
        self._retries = retries or core.Retries()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def watch(self, experiment_id: str) -> AsyncIterator[ExperimentRead]:
        """The experiment now and at each change, until it has ended; reconnects by itself."""
        version = -1
        while True:
            experiment = await self._experiment(experiment_id)
            if experiment.version > version:
                version = experiment.version
                yield experiment
            if experiment.state in core.ENDED:
                return
            await self._until_changed(experiment.id, version)

    async def _experiment(self, experiment_id: str) -> ExperimentRead:
        address = core.path("/api/v1/experiments/{experiment_id}", experiment_id=experiment_id)
        answer: ExperimentRead = core.read(ExperimentRead, await self._ask("GET", address, {}, {}, None))
        return answer

    async def _until_changed(self, experiment_id: str, version: int) -> None:
        """Until an event tells of a newer version, or the stream ends; without a free stream some seconds."""
        events = core.Events()
        address = core.path("/api/v1/experiments/{experiment_id}/events", experiment_id=experiment_id)
        try:
            async with self._http.stream("GET", address) as stream:
                async for line in stream.aiter_lines():
                    if core.is_newer(events.take(line), version):
                        return
        except httpx.TransportError:
            pass  # the next look tells whether the service is gone
        await asyncio.sleep(core.POLL_S)

    async def _ask(
        self, method: str, path: str, query: dict[str, Any], request: dict[str, Any], key: str | None
    ) -> httpx.Response:
        request = core.keyed(method, request, key)
        sent = 0
        while True:
            sent += 1
            response: httpx.Response | None = None
            try:
                response = await self._http.request(method, path, params=query, **request)
            except httpx.TransportError as error:
                wait_s = self._retries.wait_s(sent, None)
                if wait_s is None:
                    raise core.unreachable(error, str(self._http.base_url)) from error
            else:
                if response.is_success:
                    return response
                wait_s = self._retries.wait_s(sent, response)
                if wait_s is None:
                    raise core.error_of(response)
            await asyncio.sleep(wait_s)

    async def _download(
        self, method: str, path: str, query: dict[str, Any], request: dict[str, Any], key: str | None, *, to: Path
    ) -> Path:
        """``to`` is there only when it is complete."""
        request = core.keyed(method, request, key) | {"timeout": core.DOWNLOAD_TIMEOUT_S}
        part = to.with_name(f"{to.name}.part")
        try:
            async with self._http.stream(method, path, params=query, **request) as response:
                if not response.is_success:
                    await response.aread()
                    raise core.error_of(response)
                with part.open("wb") as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
        except httpx.TransportError as error:
            raise core.unreachable(error, str(self._http.base_url)) from error
        return part.replace(to)
