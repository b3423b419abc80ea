"""The one place that lets a request in: who asks, and whether the scope that its route declares is theirs.

A route says ``dependencies=[needs(Scope.SUBMIT)]``; ``create_app`` refuses to start with a route that says nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, cast

from fastapi import FastAPI, Request, Security
from fastapi.routing import iter_route_contexts
from fastapi.security import HTTPBearer, SecurityScopes
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from app.access.service import AccessService
from app.db.acting import act_as, acting_as
from app.domain.access import LOCAL, NotAllowed, NotAuthenticated, Principal, Scope, digest_of
from app.state import DatabaseDep, SettingsDep

LOGIN_COOKIE: Final = "verdraft_login"
PROTECTED_PREFIXES: Final = ("/api/", "/metrics")
PUBLIC: Final = frozenset({"/healthz", "/openapi.json", "/login", "/logout"})
"""Say nothing that a stranger may not know: that it lives, how it is asked, and where to log in."""
_READING: Final = frozenset({"GET", "HEAD"})
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="`verdraft token create` makes one.")


def access_service(database: DatabaseDep) -> AccessService:
    """The service of this request."""
    return AccessService(database)


async def admit(
    request: Request,
    wanted: SecurityScopes,
    service: Annotated[AccessService, Security(access_service)],
    settings: SettingsDep,
    _: Annotated[Any, Security(_BEARER)],
) -> None:
    """Raise ``NotAuthenticated`` or ``NotAllowed``, or let the rest of the request act for whoever asks."""
    principal = cast("Principal | None", getattr(request.state, "principal", None))
    if principal is None:
        principal = LOCAL if settings.access == "open" else await _principal(request, service)
        request.state.principal = principal
        act_as(principal)
    for scope in map(Scope, wanted.scopes):
        if not principal.may(scope):
            message = f"{principal.actor} may {principal.scope}; this needs {scope}"
            raise NotAllowed.of("Authorization", message, "use a credential with that scope, or ask an administrator")
        if scope is Scope.SUBMIT and principal is not LOCAL:
            for key in (principal.key, f"address:{address_of(request)}"):
                await service.count(f"submit:{key}", settings.submits_per_minute)


def needs(scope: Scope) -> Any:
    """What a route, or a router for all of its routes, puts among its ``dependencies``."""
    return Security(admit, scopes=[scope])


def address_of(request: Request) -> str:
    """Where a request comes from, by its socket: what a proxy says of itself anybody could say."""
    return request.client.host if request.client else "(local)"


def form_token_of(login: str) -> str:
    """The token that every form of a login carries: it dies with the login, and no other site can know it."""
    return digest_of(f"form of {login}").hex()[:43]


class Acting:
    """ASGI middleware: who one request acts for ends with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        with acting_as(None):
            await self._app(scope, receive, send)


async def _principal(request: Request, service: AccessService) -> Principal:
    """By the token; by the browser's login only where no other site can have sent the request."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind:
        return await service.bearer(token.strip() if kind.lower() == "bearer" else "")
    login = request.cookies.get(LOGIN_COOKIE, "")
    if login and _cookies_count(request):
        principal = await service.logged_in(login)
        request.state.form_token = form_token_of(login)
        return principal
    remedy = "send `Authorization: Bearer …` with a token (`verdraft token create`), or log in at /login"
    raise NotAuthenticated.of("Authorization", "this service wants to know who asks", remedy)


def _cookies_count(request: Request) -> bool:
    """The API reads no cookies, except where one of our own pages fetches a figure, a download or an event stream."""
    if not request.url.path.startswith(PROTECTED_PREFIXES):
        return True
    return request.method in _READING and request.headers.get("sec-fetch-site") == "same-origin"


def declared(app: FastAPI) -> Iterator[tuple[str, frozenset[str], tuple[Scope, ...]]]:
    """Each route with its methods and the scopes that it declares."""
    for route in iter_route_contexts(app.routes):
        scopes = _scopes(getattr(route, "dependencies", None) or ())
        yield str(route.path), frozenset(route.methods or ()), scopes


def require_declared(app: FastAPI) -> None:
    """Raise where a route neither declares a scope nor is public: it would be open to everybody."""
    silent = sorted(path for path, methods, scopes in declared(app) if methods and not scopes and path not in PUBLIC)
    if silent:
        raise RuntimeError(f"these routes declare no scope, add dependencies=[needs(Scope.…)]: {', '.join(silent)}")


def _scopes(dependencies: Iterable[Any]) -> tuple[Scope, ...]:
    return tuple(Scope(scope) for d in dependencies if d.dependency is admit for scope in d.scopes)
