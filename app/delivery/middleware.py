"""Fulfils what a request wants of its answer, inside of compression: fields left out, 304, and answers kept.

Only answers of routes that promise one of these are held back until they are whole; all others pass as they come.
"""

import asyncio
import hashlib
import json
from typing import Any, Final, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.db.session import Database
from app.delivery.repository import Answer, AnswerRepository
from app.delivery.wishes import REPLAYED_HEADER, STATE, Replayed, Wish

KEPT_BYTES_MAX: Final = 1 << 20
KEPT_HEADERS: Final = ("content-type", "location")
_API: Final = "/api/"
_OK, _NOT_MODIFIED, _REFUSED = 200, 304, 400

log = structlog.stdlib.get_logger()


class Delivery:
    """ASGI middleware, the innermost. ``compress_from`` is the size from which compression around it begins."""

    def __init__(self, app: ASGIApp, database: Database, compress_from: int) -> None:
        self._app, self._database, self._compress_from = app, database, compress_from

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_API):
            await self._app(scope, receive, send)
            return
        wish = Wish()
        scope.setdefault("state", {})[STATE] = wish
        held = _Held(scope, wish, send, self._compress_from)
        try:
            await self._app(scope, receive, held.take)
            if held.whole is not None:
                await self._keep(wish, held.whole)
                await held.give()
        finally:
            await asyncio.shield(self._release(wish))

    async def _keep(self, wish: Wish, answer: Answer) -> None:
        """What was refused was not done: the key is free again, so that the corrected request may use it."""
        if wish.claim is None or answer.status is None or answer.status >= _REFUSED:
            return
        small = answer.body is not None and len(answer.body) <= KEPT_BYTES_MAX
        body = answer.body if wish.claim.keep_body and small else None
        async with self._database.transaction() as session:
            await AnswerRepository(session).keep(wish.claim, Answer(b"", answer.status, answer.headers, body))
        wish.claim = None

    async def _release(self, wish: Wish) -> None:
        if wish.claim is None:
            return
        try:
            async with self._database.transaction() as session:
                await AnswerRepository(session).release(wish.claim)
        except (SQLAlchemyError, OSError) as away:
            log.warning("an idempotency key was not released; it is free again in minutes", error=str(away))


class _Held:
    """One answer, passed on at once or held back until it is whole."""

    def __init__(self, scope: Scope, wish: Wish, send: Send, compress_from: int) -> None:
        self._headers, self._wish, self._send, self._compress_from = Headers(scope=scope), wish, send, compress_from
        self._start: Message | None = None
        self._body: list[bytes] = []
        self.whole: Answer | None = None

    async def take(self, message: Message) -> None:
        wanted = self._wish.claim or self._wish.versioned or self._wish.fields is not None
        if message["type"] == "http.response.start" and wanted:
            self._start = message
            return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body.append(message.get("body", b""))
        if not message.get("more_body", False):
            self.whole = self._finished(self._start)

    async def give(self) -> None:
        """Send it."""
        if self._start is not None and self.whole is not None:
            await self._send(self._start)
            await self._send({"type": "http.response.body", "body": self.whole.body or b""})

    def _finished(self, start: Message) -> Answer:
        headers, body = MutableHeaders(scope=start), b"".join(self._body)
        if start["status"] == _OK and self._wish.fields is not None:
            body = _narrowed(body, self._wish.fields, self._wish.within)
            headers["content-length"] = str(len(body))
        if start["status"] == _OK and self._wish.versioned:
            tag = self._tag(body)
            headers["ETag"] = tag
            headers.setdefault("Cache-Control", "private, no-cache")
            if _matches(self._headers.get("if-none-match"), tag):
                start["status"], body = _NOT_MODIFIED, b""
                for name in ("content-length", "content-type"):
                    del headers[name]
        kept = {name: value for name in KEPT_HEADERS if (value := headers.get(name)) is not None}
        return Answer(b"", int(start["status"]), kept, body)

    def _tag(self, body: bytes) -> str:
        """Strong, so one that is compressed around us has another: it has other bytes."""
        packed = len(body) >= self._compress_from and "gzip" in self._headers.get("accept-encoding", "")
        return f'"{hashlib.sha256(body).hexdigest()[:32]}{"-gzip" if packed else ""}"'


def _matches(asked: str | None, tag: str) -> bool:
    """By the weak comparison that RFC 9110 wants here."""
    return asked is not None and any(
        candidate.strip().removeprefix("W/") in {tag, "*"} for candidate in asked.split(",")
    )


def _narrowed(body: bytes, fields: frozenset[str], within: str | None) -> bytes:
    document: Any = json.loads(body)
    if within is not None:
        document[within] = _only(document[within], fields)
    else:
        document = _only(document, fields)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _only(value: Any, fields: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_only(item, fields) for item in cast("list[Any]", value)]
    return {name: item for name, item in value.items() if name in fields}


def install(app: FastAPI, database: Database, compress_from: int) -> None:
    """Before every other middleware, so that it is the innermost."""

    @app.exception_handler(Replayed)
    async def on_replayed(_: Request, replayed: Replayed) -> Response:  # pyright: ignore[reportUnusedFunction]
        answer = replayed.answer
        headers = {**answer.headers, REPLAYED_HEADER: "true"}
        return Response(answer.body, status_code=answer.status or _OK, headers=headers)

    app.add_middleware(Delivery, database=database, compress_from=compress_from)
