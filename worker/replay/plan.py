"""What is to be sent and when, fixed before the replay begins.

The plan crosses to the client process as one JSON file; bodies travel as base64 so that
the bytes sent are exactly the bytes planned.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One request. ``due_ns`` and ``deadline_ns`` count from the start of the replay.

    A request that has not ended at its deadline is given up and its connection closed.
    """

    request_id: str
    due_ns: int
    body: bytes
    deadline_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A whole replay. The server is at ``socket_path``, or else at ``host`` and ``port``.

    ``drain_timeout_ns`` is the patience after the last due time, ``lead_in_ns`` the time between the open
    connection pool and offset zero, ``cores`` where the client is pinned (empty: anywhere).
    """

    socket_path: str | None
    host: str | None
    port: int | None
    path: str
    requests: tuple[ReplayRequest, ...]
    drain_timeout_ns: int
    cores: tuple[int, ...]
    lead_in_ns: int

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("requests: a replay needs at least one request")
        if self.socket_path is None and (self.host is None or self.port is None):
            raise ValueError("socket_path: give it, or both host and port")
        if len({request.request_id for request in self.requests}) != len(self.requests):
            raise ValueError("requests: each request_id may occur only once in a replay")
        if min(request.due_ns for request in self.requests) < 0:
            raise ValueError("requests: due_ns counts from the start of the replay and cannot be negative")

    @property
    def last_due_ns(self) -> int:
        return max(request.due_ns for request in self.requests)

    @property
    def host_header(self) -> str:
        return "localhost" if self.socket_path is not None else f"{self.host}:{self.port}"

    def give_up_ns(self) -> int:
        """The offset after which nothing more is awaited."""
        return self.last_due_ns + self.drain_timeout_ns


def http_request(path: str, body: bytes, request_id: str, host: str) -> bytes:
    """The exact bytes of one keep-alive POST of JSON; raises ``ValueError`` where a header could be forged."""
    if not request_id or not request_id.isascii() or not request_id.isprintable():
        raise ValueError(f"request_id: {request_id!r} cannot be a header value; use printable ASCII")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-Request-Id: {request_id}\r\n\r\n"
    )
    return head.encode("ascii") + body


def encode_plan(plan: ReplayPlan) -> bytes:
    """The plan as the client process reads it."""
    requests = [
        [request.request_id, request.due_ns, base64.b64encode(request.body).decode("ascii"), request.deadline_ns]
        for request in plan.requests
    ]
    document = {
        "socket_path": plan.socket_path,
        "host": plan.host,
        "port": plan.port,
        "path": plan.path,
        "requests": requests,
        "drain_timeout_ns": plan.drain_timeout_ns,
        "cores": plan.cores,
        "lead_in_ns": plan.lead_in_ns,
    }
    return json.dumps(document).encode()


def decode_plan(encoded: bytes) -> ReplayPlan:
    """The inverse of ``encode_plan``."""
    document: dict[str, Any] = json.loads(encoded)
    requests = tuple(
        ReplayRequest(request_id=request_id, due_ns=due_ns, body=base64.b64decode(body), deadline_ns=deadline_ns)
        for request_id, due_ns, body, deadline_ns in document.pop("requests")
    )
    return ReplayPlan(requests=requests, cores=tuple(document.pop("cores")), **document)
