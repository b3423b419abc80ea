"""Every request counted, timed and logged once, by the template of its route: an address has no end of values.

Query strings are left out of both, since a form's token may be in one.
"""

import logging
import time
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATIC: Final = "/static"
UNKNOWN: Final = "(none)"
_UNANSWERED: Final = 499
"""As proxies count a client that went away before any answer."""

log = structlog.stdlib.get_logger()


class RequestMeter:
    """The metrics of one web process, in a registry of its own."""

    def __init__(self) -> None:
        disable_created_metrics()  # a second series beside each counter, which nobody reads
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="verdraft", registry=self.registry)
        labels = ("method", "route")
        self._requests = Counter(
            "verdraft_http_requests",
            "Requests answered, by template of the route and class of the status.",
            (*labels, "status_class"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "verdraft_http_request_duration_seconds",
            "From the first byte of a request to the last of its answer; event streams are left out.",
            labels,
            buckets=BUCKETS_S,
            registry=self.registry,
        )

    def count(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """One request; without ``seconds`` its duration says nothing."""
        known = method if method in METHODS else "OTHER"
        self._requests.labels(known, route, f"{status // 100}xx").inc()
        if seconds is not None:
            self._seconds.labels(known, route).observe(seconds)


class Requests:
    """ASGI middleware, outside of everything else, so that refusals at the edge are counted too."""

    def __init__(self, app: ASGIApp, meter: RequestMeter) -> None:
        self._app, self._meter = app, meter
        logging.getLogger("uvicorn.access").disabled = True  # it writes query strings; the line below replaces it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; everything else passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answer = time.perf_counter(), _Answer(send)
        with structlog.contextvars.bound_contextvars(method=scope["method"]):
            try:
                await self._app(scope, receive, answer.send)
            finally:
                self._tell(scope, answer, time.perf_counter() - started)

    def _tell(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        route = route_of(scope)
        self._meter.count(scope["method"], route, answer.status, None if answer.streams else seconds)
        if route != STATIC:
            log.info(
                "request",
                request_id=answer.request_id,
                route=route,
                status=answer.status,
                duration_ms=round(seconds * 1000, 1),
            )


class _Answer:
    """What was sent back, as far as it is counted."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.request_id, self.streams = _UNANSWERED, "", False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message.get("headers", []))
            self.status, self.request_id = int(message["status"]), headers.get("x-request-id", "")
            self.streams = headers.get("content-type", "").startswith("text/event-stream")
        await self._send(message)


def route_of(scope: Scope) -> str:
    """The template of the route that answered, such as ``/runs/{run_id}``."""
    if scope["path"].startswith(f"{STATIC}/"):
        return STATIC
    route: Any = scope.get("route")
    return getattr(route, "path", None) or UNKNOWN
