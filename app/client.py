"""What the commands ask of the service: JSON in and out, problem details as one error, and quick to load.

No library for others: that is ``clients/python``, typed and with every operation.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote

import httpx

from app.credentials import token_for
from app.domain.errors import FieldProblem
from app.problems import Problem, Refused, complaint, problem

if TYPE_CHECKING:  # the report brings the whole analysis; most calls never need it
    from app.domain.report import Report

__all__ = ["API", "Problem", "Refused", "Service", "complaint", "page_url", "problem"]

API = "/api/v1"
TIMEOUT_S = 60
AS_IS = {"accept-encoding": "identity"}
BUNDLE_TIMEOUT_S = 3600
"""It is made when it is asked for, and a large one takes its time."""


class Service:
    """The API at ``url``; a context manager. Every method raises ``Refused``.

    Without a ``token`` it is the one of the environment, or of ``verdraft login``.
    """

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None, *, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        known = token or token_for(self.url)
        headers = {"authorization": f"Bearer {known}"} if known else {}
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, transport=transport, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def upload_trace(self, content: bytes) -> Problem:
        return self._call("POST", "/traces", content=content, headers={"content-type": "application/jsonl"})

    def submit(
        self,
        manifest: bytes,
        media_type: str = "application/json",
        owner: str | None = None,
        priority: int | None = None,
    ) -> Problem:
        """Register a manifest; without an owner or a priority the service chooses."""
        query = {key: value for key, value in {"owner": owner, "priority": priority}.items() if value is not None}
        headers = {"content-type": media_type}
        return self._call("POST", "/experiments", params=query, content=manifest, headers=headers)

    def preflight(self, manifest: bytes, media_type: str = "application/json") -> Problem:
        return self._call("POST", "/preflight", content=manifest, headers={"content-type": media_type})

    def experiment(self, experiment_id: str) -> Problem:
        return self._call("GET", f"/experiments/{experiment_id}")

    def experiments(self) -> Iterator[Problem]:
        """All experiments, newest first, page by page."""
        query: dict[str, str] = {}
        while True:
            page = self._call("GET", "/experiments", params=query)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query = {"cursor": page["next_cursor"]}

    def cancel(self, experiment_id: str) -> Problem:
        return self._call("POST", f"/experiments/{experiment_id}/cancel")

    def delete(self, experiment_id: str) -> Problem:
        """Delete an experiment that has ended, with all its evidence."""
        return self._call("DELETE", f"/experiments/{experiment_id}")

    def report(self, experiment_id: str, against: str | None = None) -> "Report":
        """The whole report of an experiment, held against what workers published or against another experiment."""
        from app.domain.report import Report  # noqa: PLC0415  (as above)

        return Report.model_validate(self._call("GET", f"/experiments/{experiment_id}/report", params=_held(against)))

    def printed(self, experiment_id: str, suffix: Literal["md", "html"], against: str | None = None) -> str:
        """The report as Markdown or as one HTML file."""
        return self._request("GET", f"/experiments/{experiment_id}/report.{suffix}", params=_held(against)).text

    def capabilities(self) -> list[Problem]:
        """What each worker published last."""
        return self._call("GET", "/capabilities")

    def traces(self) -> list[Problem]:
        """Every stored trace, newest first."""
        return self._call("GET", "/traces")

    def accelerators(self) -> list[Problem]:
        """Every accelerator, by host and name."""
        return self._call("GET", "/accelerators")

    def quarantine(self, host: str, name: str, reason: str) -> Problem:
        return self._call("POST", f"{_accelerator(host, name)}/quarantine", json={"reason": reason})

    def release(self, host: str, name: str, reason: str) -> Problem:
        return self._call("POST", f"{_accelerator(host, name)}/release", json={"reason": reason})

    def bundle(self, experiment_id: str, output: Path, *, with_raw: bool = False) -> int:
        """Write the bundle to ``output``, which is there only when it is complete; returns its size in bytes."""
        unfinished = output.with_name(f"{output.name}.part")
        path, query = f"/experiments/{experiment_id}/bundle", {"with_raw": with_raw}
        with (
            self._streamed("GET", path, params=query, headers=AS_IS, timeout=BUNDLE_TIMEOUT_S) as answer,
            unfinished.open("wb") as file,
        ):
            size = sum(map(file.write, answer.iter_bytes()))
        unfinished.replace(output)
        return size

    @contextmanager
    def _streamed(self, method: str, path: str, **options: Any) -> Generator[httpx.Response]:
        try:
            with self._http.stream(method, API + path, **options) as response:
                if response.is_error:
                    response.read()
                    raise Refused(_problem_of(response))
                yield response
        except httpx.TransportError as error:
            raise Refused(self._unreachable(error)) from error

    def _call(self, method: str, path: str, **options: Any) -> Any:
        return self._request(method, path, **options).json()

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, API + path, **options)
        except httpx.TransportError as error:
            raise Refused(self._unreachable(error)) from error
        if response.is_error:
            raise Refused(_problem_of(response))
        return response

    def _unreachable(self, error: httpx.TransportError) -> Problem:
        remedy = "start the service with `verdraft up`, or name another with --url or VERDRAFT_URL"
        return problem("The service cannot be reached", FieldProblem("url", f"{self.url}: {error}", remedy))


def _held(against: str | None) -> dict[str, str]:
    return {} if against is None else {"against": against}


def _accelerator(host: str, name: str) -> str:
    return f"/accelerators/{quote(host, safe='')}/{quote(name, safe='')}"


def page_url(service: Service, experiment: Problem) -> str:
    """The address of an experiment's page; ``experiment`` is the API's ``ExperimentRead``."""
    return service.url + experiment["links"]["page"]


def _problem_of(response: httpx.Response) -> Problem:
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        return response.json()
    message = f"HTTP {response.status_code} from {response.url} without problem details"
    remedy = "is this address a Verdraft service?"
    return problem("The answer was not understood", FieldProblem("url", message, remedy))
