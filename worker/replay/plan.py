"""What is to be sent and when, fixed before the replay begins.

The plan crosses to the client process as one JSON file; bodies travel as base64 so that
the bytes sent are exactly the bytes planned.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

SPIN_NS = 200_000
"""More than a sleeping core takes to wake, on most hosts and most of the time."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A turn of a session that is closed: the earlier answers in its body are the server's own.

    The messages are the last member of the body. ``start`` is the offset of the first of them, ``additions`` that
    of what follows the recorded answer to the turn before; what lies between is replaced by what was really said.
    A turn that ``follows`` another falls due ``think_ns`` after that one ended.
    """

    start: int
    follows: str | None = None
    additions: int = 0
    think_ns: int = 0


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One request. ``due_ns`` counts from the start of the replay, the other times from when it is due.

    A request that has not ended at its deadline is given up; at ``cancel_at_ns`` it is abandoned on purpose. Either
    way its connection is closed.
    """

    request_id: str
    due_ns: int
    body: bytes
    deadline_ns: int | None = None
    cancel_at_ns: int | None = None
    path: str | None = None
    """Where it goes, if not where the plan says."""
    conversation: Conversation | None = None


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A whole replay. The server is at ``socket_path``, or else at ``host`` and ``port``.

    ``drain_timeout_ns`` is the patience after the last due time, ``lead_in_ns`` the time between the open
    connection pool and offset zero, ``cores`` where the client is pinned (empty: anywhere). With ``clients`` the
    loop is closed: so many requests are in flight, and offsets only give their order. ``spin_ns``: how long before a
    due time the client stops sleeping; 0 where it has no core of its own.
    """

    socket_path: str | None
    host: str | None
    port: int | None
    path: str
    requests: tuple[ReplayRequest, ...]
    drain_timeout_ns: int
    cores: tuple[int, ...]
    lead_in_ns: int
    clients: int | None = None
    spin_ns: int = SPIN_NS

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("requests: a replay needs at least one request")
        if self.socket_path is None and (self.host is None or self.port is None):
            raise ValueError("socket_path: give it, or both host and port")
        if len({request.request_id for request in self.requests}) != len(self.requests):
            raise ValueError("requests: each request_id may occur only once in a replay")
        if min(request.due_ns for request in self.requests) < 0:
            raise ValueError("requests: due_ns counts from the start of the replay and cannot be negative")
        if self.clients is not None and self.clients < 1:
            raise ValueError("clients: a closed loop needs at least one")
        _check_turns(self.requests)

    @property
    def last_due_ns(self) -> int:
        return max(request.due_ns for request in self.requests)

    @property
    def host_header(self) -> str:
        return "localhost" if self.socket_path is not None else f"{self.host}:{self.port}"

    def give_up_ns(self) -> int:
        """The offset after which nothing more is awaited, as far as offsets are known beforehand."""
        return self.last_due_ns + self.drain_timeout_ns

    def longest_ns(self) -> int:
        """No replay lasts longer: requests that wait for others may each take the whole patience."""
        waiting = [r for r in self.requests if self.clients is not None or (r.conversation and r.conversation.follows)]
        thinking = sum(r.conversation.think_ns for r in waiting if r.conversation)
        return self.give_up_ns() + len(waiting) * self.drain_timeout_ns + thinking


def _check_turns(requests: Iterable[ReplayRequest]) -> None:
    """A turn follows an earlier request of the plan, and no two follow the same one."""
    followed: set[str] = set()
    conversing: set[str] = set()
    for request in requests:
        turn = request.conversation
        if turn is not None and turn.follows is not None:
            if turn.follows not in conversing or turn.follows in followed:
                raise ValueError(f"requests: {request.request_id} follows {turn.follows}, which cannot be followed")
            followed.add(turn.follows)
        if turn is not None:
            conversing.add(request.request_id)


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
    document = {name: getattr(plan, name) for name in ReplayPlan.__slots__}
    return json.dumps({**document, "requests": [_encode(request) for request in plan.requests]}).encode()


def decode_plan(encoded: bytes) -> ReplayPlan:
    """The inverse of ``encode_plan``."""
    document: dict[str, Any] = json.loads(encoded)
    requests = tuple(_decode(cells) for cells in document.pop("requests"))
    return ReplayPlan(requests=requests, cores=tuple(document.pop("cores")), **document)


def _encode(request: ReplayRequest) -> list[Any]:
    return [
        request.request_id,
        request.due_ns,
        base64.b64encode(request.body).decode("ascii"),
        request.deadline_ns,
        request.cancel_at_ns,
        request.path,
        None if request.conversation is None else astuple(request.conversation),
    ]


def _decode(cells: list[Any]) -> ReplayRequest:
    request_id, due_ns, body, deadline_ns, cancel_at_ns, path, conversation = cells
    return ReplayRequest(
        request_id=request_id,
        due_ns=due_ns,
        body=base64.b64decode(body),
        deadline_ns=deadline_ns,
        cancel_at_ns=cancel_at_ns,
        path=path,
        conversation=None if conversation is None else Conversation(*conversation),
    )
