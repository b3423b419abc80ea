"""The stream behind a live page: what changed, and the run under way already drawn, so that a page only puts it in."""

from collections.abc import AsyncIterator
from typing import cast

from fastapi import APIRouter, Request
from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent

from app.domain.live import LiveLog, LivePicture
from app.domain.manifest import Manifest
from app.experiments.events import Event, Streams
from app.pages.now import now_of
from app.pages.page_route import PageRoute, Source
from app.pages.views import ENVIRONMENT

PING_S = 10
"""How often the stream says that it lives; a page that hears nothing for longer opens another."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/experiments/{prefix}/stream")
async def stream(request: Request, prefix: str, source: Source) -> EventSourceResponse:
    """Server-sent events: ``change`` and ``reconnect`` as the API's, ``live`` and ``log`` as HTML, and ``ping``."""
    experiment = await source.experiments.read(prefix)
    manifest = await source.experiments.manifest(experiment.id)
    streams = cast("Streams", request.app.state.streams)
    events = streams.follow(experiment.id, request.client.host if request.client else "")
    return EventSourceResponse(
        _drawn(events, manifest), headers={"Cache-Control": "no-store"}, ping=PING_S, ping_message_factory=_ping
    )


async def _drawn(events: AsyncIterator[Event], manifest: Manifest) -> AsyncIterator[Event]:
    async for event in events:
        drawn = draw(event, manifest)
        if drawn is not None:
            yield drawn


def draw(event: Event, manifest: Manifest) -> Event | None:
    """``live`` and ``log`` as HTML; ``None`` for what a worker of another version sent."""
    try:
        if event["event"] == "live":
            picture = LivePicture.model_validate_json(event["data"])
            return event | {"data": _render("_now.html", now=now_of(picture), manifest=manifest)}
        if event["event"] == "log":
            log = LiveLog.model_validate_json(event["data"])
            return event | {"data": _render("_log_tail.html", tail=log, manifest=manifest)}
    except ValidationError:
        return None
    return event


def _render(template: str, **context: object) -> str:
    return ENVIRONMENT.get_template(template).render(**context)


def _ping() -> ServerSentEvent:
    return ServerSentEvent(event="ping", data="{}")
