"""The client's own work, with blocking calls: sending again, downloading, following."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from verdraft_client import _core as core
from verdraft_client.models import ExperimentRead


class SyncBase:
    """Without a ``url`` or ``token`` they are those of ``VERDRAFT_URL`` and ``VERDRAFT_TOKEN``."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: core.Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**core.options(url, token), transport=transport)
        self._retries = retries or core.Retries()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def watch(self, experiment_id: str) -> Iterator[ExperimentRead]:
        """The experiment now and at each change, until it has ended; reconnects by itself."""
        version = -1
        while True:
            experiment = self._experiment(experiment_id)
            if experiment.version > version:
                version = experiment.version
                yield experiment
            if experiment.state in core.ENDED:
                return
            self._until_changed(experiment.id, version)

    def _experiment(self, experiment_id: str) -> ExperimentRead:
        address = core.path("/api/v1/experiments/{experiment_id}", experiment_id=experiment_id)
        answer: ExperimentRead = core.read(ExperimentRead, self._ask("GET", address, {}, {}, None))
        return answer

    def _until_changed(self, experiment_id: str, version: int) -> None:
        """Until an event tells of a newer version, or the stream ends; without a free stream some seconds."""
        events = core.Events()
        address = core.path("/api/v1/experiments/{experiment_id}/events", experiment_id=experiment_id)
        try:
            with self._http.stream("GET", address) as stream:
                for line in stream.iter_lines() if stream.is_success else ():
                    if core.is_newer(events.take(line), version):
                        return
        except httpx.TransportError:
            pass  # the next look tells whether the service is gone
        time.sleep(core.POLL_S)

    def _ask(
        self, method: str, path: str, query: dict[str, Any], request: dict[str, Any], key: str | None
    ) -> httpx.Response:
        request = core.keyed(method, request, key)
        sent = 0
        while True:
            sent += 1
            response: httpx.Response | None = None
            try:
                response = self._http.request(method, path, params=query, **request)
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
            time.sleep(wait_s)

    def _download(
        self, method: str, path: str, query: dict[str, Any], request: dict[str, Any], key: str | None, *, to: Path
    ) -> Path:
        """``to`` is there only when it is complete."""
        request = core.keyed(method, request, key) | {"timeout": core.DOWNLOAD_TIMEOUT_S}
        part = to.with_name(f"{to.name}.part")
        try:
            with self._http.stream(method, path, params=query, **request) as response:
                if not response.is_success:
                    response.read()
                    raise core.error_of(response)
                with part.open("wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
        except httpx.TransportError as error:
            raise core.unreachable(error, str(self._http.base_url)) from error
        return part.replace(to)
