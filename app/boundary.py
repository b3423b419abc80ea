"""The edge of the web process, before any route: who is asked, how much is read, what every answer carries.

A body is measured while it arrives, never buffered first; a fault is logged and answered with an opaque id. Without
access control only this host itself is answered, whatever address the socket is bound to.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.access import TOKEN_IN_TEXT
from app.domain.errors import DomainError, FieldProblem
from app.errors import (
    ForeignHost,
    PayloadTooLarge,
    TokenInAddress,
    UnsupportedMediaType,
    internal_error,
    problem_response,
)

BODY_MAX = 1 << 20
TRACE_MAX = 64 << 20
UPLOAD_PATHS = frozenset(
    {"/api/v1/traces", "/api/v1/imports", "/workloads/new", "/workloads/new/preview", "/imports/new"}
)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
TOKEN_NAMES = frozenset({"access_token", "api_key", "apikey", "auth_token", "token", "authorization", "password"})
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

log = structlog.stdlib.get_logger()


class Boundary:
    """ASGI middleware around the whole application. ``host`` is the address it is bound to, ``public`` its name."""

    def __init__(self, app: ASGIApp, host: str, public: str = "", *, everybody: bool = False) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host} | ({_name(urlsplit(public).netloc)} if public else set[str]())
        self._everybody = everybody

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; everything else passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Exchange(self._app, scope, receive, send).run(self._hosts, everybody=self._everybody)


class _Exchange:
    """One request and its answer."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        self._app, self._scope, self._receive_raw, self._send_raw = app, scope, receive, send
        self._request_id = uuid4().hex
        self._limit = TRACE_MAX if scope["path"].rstrip("/") in UPLOAD_PATHS else BODY_MAX
        self._received = 0
        self._started = False

    async def run(self, hosts: frozenset[str], *, everybody: bool) -> None:
        with structlog.contextvars.bound_contextvars(request_id=self._request_id):
            try:
                self._admit(Headers(scope=self._scope), hosts)
                if not everybody:
                    self._require_near()
                self._refuse_token_in_query()
                await self._app(self._scope, self._receive, self._send)
            except DomainError as error:
                await self._refuse(error)
            except Exception:  # the request boundary: recorded, answered, never shown
                log.exception("request failed", method=self._scope["method"], path=self._scope["path"])
                if self._started:
                    raise
                answer = internal_error(self._request_id, self._scope["path"])
                await answer(self._scope, self._receive_raw, self._send)
            else:
                if self._too_large() and not self._started:
                    await self._refuse(_too_large(self._limit))

    def _admit(self, headers: Headers, hosts: frozenset[str]) -> None:
        host = headers.get("host", "")
        if _name(host) not in hosts:
            raise ForeignHost.of("Host", f"{host!r} is not a name of this service", "ask for it by its own address")
        origin = headers.get("origin")
        changes = self._scope["method"] not in READING and self._scope["path"].startswith("/api/")
        if changes and origin is not None and origin.partition("://")[2] != host:
            raise ForeignHost.of("Origin", f"{origin!r} is another site", "send the request from this service's pages")
        if headers.get("content-encoding", "identity") != "identity":
            raise UnsupportedMediaType.of("Content-Encoding", "compressed bodies are not read", "send it uncompressed")
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > self._limit:
            raise _too_large(self._limit)

    def _require_near(self) -> None:
        client = self._scope.get("client")  # none behind a Unix socket
        if client is not None and not is_loopback(client[0]):
            remedy = "the operator may set VERDRAFT_ACCESS=required"
            raise ForeignHost.of("(client)", "without access control only this host is answered", remedy)

    def _refuse_token_in_query(self) -> None:
        """Addresses end up in logs, histories and Referer headers."""
        query = self._scope.get("query_string", b"").decode("latin-1")
        names = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
        if names & TOKEN_NAMES or TOKEN_IN_TEXT.search(unquote(query)):
            remedy = "send it as `Authorization: Bearer …`; revoke this one, it may have been written to a log"
            raise TokenInAddress.of("(query)", "a token does not belong into an address", remedy)

    async def _receive(self) -> Message:
        message = await self._receive_raw()
        self._received += len(message.get("body", b""))
        if self._too_large():
            raise _too_large(self._limit)
        return message

    async def _send(self, message: Message) -> None:
        if self._too_large() and not self._started:
            return  # whatever the application made of the broken read, the answer is 413
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._request_id
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send_raw(message)

    async def _refuse(self, error: DomainError) -> None:
        self._received = 0
        answer = problem_response(error, self._scope["path"])
        answer.headers["Connection"] = "close"
        await answer(self._scope, self._receive_raw, self._send)

    def _too_large(self) -> bool:
        return self._received > self._limit


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(FieldProblem("(body)", f"longer than {limit} bytes", "send less, or split it"))


class AccessRefused(DomainError):
    """The service would be open to whoever reaches it."""

    title = "The service does not start without access control"


def require_access(access: str, host: str) -> None:
    """Raise ``AccessRefused`` where nobody is asked who they are and other hosts can reach it."""
    if access == "open" and not is_loopback(host):
        message = f"{host} can be reached from other hosts, and VERDRAFT_ACCESS is open"
        raise AccessRefused.of("VERDRAFT_HOST", message, "set VERDRAFT_ACCESS=required, or bind 127.0.0.1")


def is_loopback(address: str) -> bool:
    """Whether it is this host's own; names are not looked up."""
    try:
        found = ip_address(address)
        return (getattr(found, "ipv4_mapped", None) or found).is_loopback
    except ValueError:
        return address.lower() in LOOPBACK


def _name(host: str) -> str:
    """The name in a Host header, without its port or brackets."""
    bare = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return bare.lower()
