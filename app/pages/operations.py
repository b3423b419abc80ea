"""The operations page: what the service is doing, and the form that takes an accelerator out of use or puts it back."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.lifecycle import AcceleratorState
from app.operations.routes import ServiceDep as Operations
from app.operations.schemas import FailureCount, Reason
from app.pages import guard
from app.pages.page_route import PageRoute
from app.pages.views import page

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)

NO_REASON = "Say why in at most 500 characters: whoever comes after you reads it."


class Place(BaseModel):
    """Which accelerator a form is about; the query of its page."""

    model_config = ConfigDict(extra="forbid")

    host: str
    name: str


@router.get("/operations")
async def show_operations(request: Request, service: Operations) -> Response:
    """Everything an operator asks first."""
    now = await service.operations()
    return page(request, "operations.html", {"now": now, "classes": failure_table(now.failures)})


@router.get("/operations/live")
async def show_fragment(request: Request, service: Operations) -> Response:
    """The part of the page that changes."""
    now = await service.operations()
    return page(request, "_operations.html", {"now": now, "classes": failure_table(now.failures)})


@router.get("/operations/accelerator")
async def show_accelerator(request: Request, place: Annotated[Place, Query()], service: Operations) -> Response:
    """One accelerator, and the form that changes what may run on it."""
    accelerator = await service.accelerator(place.host, place.name)
    return page(request, "accelerator.html", {"accelerator": accelerator, "wrong": ""})


@router.post("/operations/accelerator", dependencies=[needs(Scope.ADMIN)])
async def change_accelerator(request: Request, place: Annotated[Place, Query()], service: Operations) -> Response:
    """Quarantine it, or release it, whichever the form asked for."""
    async with request.form(max_files=0, max_fields=5) as posted:
        guard.check_form(request, str(posted.get(guard.FIELD, "")))
        wanted, typed = str(posted.get("state", "")), str(posted.get("reason", ""))
    try:
        reason = Reason(reason=typed).reason
    except ValidationError:
        context = {"accelerator": await service.accelerator(place.host, place.name), "wrong": NO_REASON}
        return page(request, "accelerator.html", context, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    change = service.quarantine if wanted == AcceleratorState.QUARANTINED else service.release
    await change(place.host, place.name, reason)
    return RedirectResponse("/operations", HTTPStatus.SEE_OTHER)


def failure_table(counts: list[FailureCount]) -> dict[str, dict[str, FailureCount]]:
    """Class → level → its count, by class."""
    classes = sorted({count.failure_class for count in counts})
    return {word: {c.level: c for c in counts if c.failure_class == word} for word in classes}
