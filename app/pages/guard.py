"""Keeps other sites from submitting our forms: same-origin headers and a token (method C3, item 24).

The token of a browser that is logged in belongs to its login; without one it is compared with a cookie.
"""

import re
import secrets
from urllib.parse import urlsplit

from fastapi import Request, Response

from app.domain.errors import DomainError

COOKIE = "verdraft_form"
FIELD = "form_token"
_TOKEN = re.compile(r"^[A-Za-z0-9_-]{43}$")


class ForeignForm(DomainError):
    """A form was posted from another site, or from a page whose token has expired."""

    title = "The form was refused"


def token_of(request: Request) -> str:
    """The form token of the browser's login, else the browser's own, or a new one."""
    bound = _bound(request)
    if bound is not None:
        return bound
    known = request.cookies.get(COOKIE, "")
    return known if _TOKEN.match(known) else secrets.token_urlsafe(32)


def remember(request: Request, response: Response, token: str) -> None:
    """Give the browser its token, unless it has it already or its login implies it."""
    if _bound(request) is not None or request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")


def check_form(request: Request, token: str, bound: str | None = None) -> None:
    """Raise ``ForeignForm`` unless the post came from a page of this host and carries its token, ``bound`` or known."""
    if not _same_origin(request):
        raise ForeignForm.of("Origin", "the form was not sent from this host", "open the page here and send it again")
    known = bound or _bound(request) or request.cookies.get(COOKIE, "")
    if not _TOKEN.match(known) or not secrets.compare_digest(known.encode(), token.encode()):
        raise ForeignForm.of(FIELD, "the form's token does not match", "allow cookies, reload the page, send it again")


def _bound(request: Request) -> str | None:
    return getattr(request.state, "form_token", None)


def _same_origin(request: Request) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    return urlsplit(origin).netloc == request.headers.get("host")
