"""What every page's route shares: its services, and errors as pages."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from app.domain.access import NotAuthenticated
from app.domain.errors import DomainError, FieldProblem
from app.errors import headers_of, status_of
from app.pages import guard
from app.pages.readings import Readings, readings
from app.pages.views import error_page

Source = Annotated[Readings, Depends(readings)]


class PageRoute(APIRoute):
    """Answers a domain error with a page instead of problem details."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def answer_with_page(request: Request) -> Response:
            try:
                return await answer(request)
            except NotAuthenticated as error:
                return _to_login(request, error)
            except DomainError as error:
                response = error_page(request, _status_of(error), error.title, error.problems)
                response.headers.update(headers_of(error))
                return response
            except RequestValidationError as error:
                problems = tuple(_address_problem(item) for item in error.errors())
                return error_page(request, HTTPStatus.UNPROCESSABLE_ENTITY, "The address is not valid", problems)

        return answer_with_page


def _to_login(request: Request, error: NotAuthenticated) -> Response:
    """A person is asked to log in and comes back; a page that refreshes itself is loaded whole, and then asked."""
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method == "GET" and "hx-request" not in request.headers and "authorization" not in request.headers:
        return RedirectResponse(f"/login?{urlencode({'next': address})}", HTTPStatus.SEE_OTHER)
    response = error_page(request, HTTPStatus.UNAUTHORIZED, error.title, error.problems)
    response.headers.update({**headers_of(error), "HX-Refresh": "true"})
    return response


def _status_of(error: DomainError) -> int:
    return HTTPStatus.FORBIDDEN if isinstance(error, guard.ForeignForm) else status_of(error)


def _address_problem(item: dict[str, Any]) -> FieldProblem:
    field = ".".join(str(part) for part in item["loc"][1:])
    unknown = item["type"] == "extra_forbidden"
    message = "this parameter is unknown" if unknown else str(item["msg"])
    return FieldProblem(field or "address", message, "remove it" if unknown else "correct it, or leave it out")
