"""A thin client of the service's HTTP API: JSON in and out, problem details as one error."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from app.domain.errors import FieldProblem
from app.domain.report import Report

Problem = dict[str, Any]
API = "/api/v1"
TIMEOUT_S = 60


class Refused(Exception):
    """The service said no, or could not be asked. ``problem`` is an RFC 9457 problem-details object."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.get("detail") or problem.get("title", ""))
        self.problem = problem


class Service:
    """The API at ``url``; a context manager. Every method raises ``Refused``."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def upload_trace(self, content: bytes) -> Problem:
        return self._call("POST", "/traces", content=content, headers={"content-type": "application/jsonl"})

    def submit(self, manifest: bytes, media_type: str = "application/json") -> Problem:
        return self._call("POST", "/experiments", content=manifest, headers={"content-type": media_type})

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

    def report(self, experiment_id: str) -> Report:
        return Report.model_validate(self._call("GET", f"/experiments/{experiment_id}/report"))

    def bundle(self, experiment_id: str) -> bytes:
        return self._request("GET", f"/experiments/{experiment_id}/bundle").content

    def _call(self, method: str, path: str, **options: Any) -> Problem:
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


def problem(title: str, *problems: FieldProblem) -> Problem:
    """A problem-details object made here, of the same shape as the service's."""
    listed = [{"field": p.field, "message": p.message, "remedy": p.remedy} for p in problems]
    detail = "; ".join(f"{p.field}: {p.message}" for p in problems)
    return {"type": "about:blank", "title": title, "status": None, "detail": detail, "problems": listed}


def complaint(refusal: Problem) -> Iterator[str]:
    """Problem details in lines for a person: the title, then each field with its remedy."""
    yield f"{refusal['title']}:"
    for item in refusal.get("problems") or [{"field": "service", "message": refusal.get("detail"), "remedy": ""}]:
        remedy = f" ({item['remedy']})" if item["remedy"] else ""
        yield f"  {item['field']}: {item['message']}{remedy}"


def _problem_of(response: httpx.Response) -> Problem:
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        return response.json()
    message = f"HTTP {response.status_code} from {response.url} without problem details"
    remedy = "is this address a Verdraft service?"
    return problem("The answer was not understood", FieldProblem("url", message, remedy))
