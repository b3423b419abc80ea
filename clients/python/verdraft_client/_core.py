"""What both clients share: addresses, retries, errors, and the reading of events. No I/O here."""

import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import TypeAdapter, ValidationError

from verdraft_client.models import Problem

API_ENVIRONMENT: Final = "VERDRAFT_URL"
TOKEN_ENVIRONMENT: Final = "VERDRAFT_TOKEN"  # noqa: S105
DEFAULT_URL: Final = "http://127.0.0.1:8400"
TIMEOUT_S: Final = 60.0
DOWNLOAD_TIMEOUT_S: Final = 3600.0
RETRIED: Final = frozenset({429, 502, 503, 504})
ENDED: Final = frozenset({"FINISHED", "FAILED", "CANCELED"})
KEY: Final = "Idempotency-Key"
POLL_S: Final = 2.0

T = TypeVar("T")
Content = bytes | str | Mapping[str, Any]
"""A document as it is written, or as a mapping that is sent as JSON."""


class VerdraftError(Exception):
    """The service said no (``status`` and ``problem``), or could not be asked (``status`` is ``None``)."""

    def __init__(self, problem: Problem, status: int | None) -> None:
        super().__init__(f"{problem.title}: {problem.detail}")
        self.problem, self.status = problem, status


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and after how long a request is sent again."""

    times: int = 3
    first_s: float = 0.5
    longest_s: float = 30.0

    def wait_s(self, sent: int, response: httpx.Response | None) -> float | None:
        """Seconds before it is sent again after ``sent`` times; ``None`` where it is not. No response: it broke."""
        if sent > self.times or (response is not None and response.status_code not in RETRIED):
            return None
        asked = "" if response is None else response.headers.get("retry-after", "")
        if asked.isdecimal():
            return min(float(asked), self.longest_s)
        return min(self.first_s * 2 ** (sent - 1), self.longest_s) * random.uniform(0.5, 1.0)


def options(url: str | None, token: str | None) -> dict[str, Any]:
    """Of the HTTP client; what is not given comes from the environment."""
    known = token or os.environ.get(TOKEN_ENVIRONMENT)
    headers = {"user-agent": "verdraft-client"} | ({"authorization": f"Bearer {known}"} if known else {})
    base = (url or os.environ.get(API_ENVIRONMENT) or DEFAULT_URL).rstrip("/")
    return {"base_url": base, "headers": headers, "timeout": TIMEOUT_S}


def path(template: str, **parts: str) -> str:
    """The address with its parts, each of which stays one part."""
    return template.format(**{name: quote(str(part), safe="") for name, part in parts.items()})


def query(**parameters: Any) -> dict[str, Any]:
    """Without those that are not given."""
    return {name: _plain(value) for name, value in parameters.items() if value is not None}


def body(content: Content, content_type: str) -> dict[str, Any]:
    """A document as the request's body; a mapping is sent as JSON, whatever the type."""
    if isinstance(content, Mapping):
        content, content_type = json.dumps(content, ensure_ascii=False), "application/json"
    raw = content.encode() if isinstance(content, str) else content
    return {"content": raw, "headers": {"content-type": content_type}}


def keyed(method: str, request: dict[str, Any], idempotency_key: str | None) -> dict[str, Any]:
    """A POST has a key, the same each time it is sent."""
    if method != "POST":
        return request
    headers = dict(request.get("headers", {}))
    return request | {"headers": headers | {KEY: idempotency_key or str(uuid4())}}


def read(kind: Any, response: httpx.Response) -> Any:
    """The answer as that type."""
    return TypeAdapter(kind).validate_json(response.content)


def error_of(response: httpx.Response) -> VerdraftError:
    """From the problem details, or from an answer that is not ours."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        message = f"HTTP {response.status_code} without problem details: is this a Verdraft service?"
        problem = _problem("The answer was not understood", message, str(response.request.url))
    return VerdraftError(problem, response.status_code)


def unreachable(error: httpx.TransportError, url: str) -> VerdraftError:
    """It could not be asked."""
    return VerdraftError(_problem("The service cannot be reached", str(error) or type(error).__name__, url), None)


class Events:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._event, self._data = "message", list[str]()

    def take(self, line: str) -> tuple[str, str] | None:
        """Name and data of an event that this line ends."""
        if not line:
            done = (self._event, "\n".join(self._data)) if self._data else None
            self._event, self._data = "message", []
            return done
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [str(item) for item in value] if isinstance(value, list | tuple) else value


def _problem(title: str, detail: str, instance: str) -> Problem:
    return Problem.model_validate({"title": title, "status": 0, "detail": detail, "instance": instance, "problems": []})


def is_newer(event: tuple[str, str] | None, version: int) -> bool:
    """Whether the event tells of a later version, or asks to connect again."""
    if event is None:
        return False
    name, data = event
    return name == "reconnect" or (name == "change" and int(json.loads(data)["version"]) > version)
