"""Log in and out with a browser. The cookie holds a random secret; everything about it is kept by the server."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.access.gate import LOGIN_COOKIE, address_of, form_token_of
from app.access.routes import ServiceDep
from app.access.service import LOGIN_HOURS
from app.domain.access import PASSWORD_MAX, NotAuthenticated, local_path
from app.pages import guard
from app.pages.page_route import PageRoute
from app.pages.views import page
from app.settings import Settings
from app.state import SettingsDep

FIELD_MAX: Final = PASSWORD_MAX

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)

Next = Annotated[str, Query(alias="next", max_length=2000)]


@router.get("/login")
async def show_login(request: Request, following: Next = "/") -> Response:
    """The form."""
    return page(request, "login.html", {"following": local_path(following), "wrong": ""})


@router.post("/login")
async def log_in(request: Request, service: ServiceDep, settings: SettingsDep) -> Response:
    """Check name and password; both wrong ones get the same answer in the same time."""
    async with request.form(max_files=0, max_fields=5, max_part_size=4096) as posted:
        typed = {name: str(posted.get(name, ""))[:FIELD_MAX] for name in ("account", "password")}
        following, token = local_path(str(posted.get("next", "/"))), str(posted.get(guard.FIELD, ""))
    guard.check_form(request, token)
    for key in (f"login:address:{address_of(request)}", f"login:account:{typed['account'].encode().hex()[:128]}"):
        await service.count(key, settings.logins_per_minute)
    try:
        login = await service.log_in(typed["account"], typed["password"])
    except NotAuthenticated as refused:
        context = {"following": following, "wrong": refused.problems[0].message}
        return page(request, "login.html", context, status=HTTPStatus.UNAUTHORIZED)
    response = RedirectResponse(following, HTTPStatus.SEE_OTHER)
    response.set_cookie(
        LOGIN_COOKIE,
        login,
        max_age=int(LOGIN_HOURS * 3600),
        httponly=True,
        samesite="lax",
        secure=_secure(request, settings),
        path="/",
    )
    return response


@router.post("/logout")
async def log_out(request: Request, service: ServiceDep) -> Response:
    """End the login, here and on the server."""
    login = request.cookies.get(LOGIN_COOKIE, "")
    async with request.form(max_files=0, max_fields=5, max_part_size=4096) as posted:
        guard.check_form(request, str(posted.get(guard.FIELD, "")), form_token_of(login) if login else None)
    await service.log_out(login)
    response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    response.delete_cookie(LOGIN_COOKIE, path="/")
    return response


def _secure(request: Request, settings: Settings) -> bool:
    return request.url.scheme == "https" or settings.public_url.startswith("https://")
