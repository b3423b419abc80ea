"""What every page's route shares: its services, and errors as pages."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from app.domain.errors import DomainError, FieldProblem
from app.errors import status_of
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
            except DomainError as error:
                return error_page(request, _status_of(error), error.title, error.problems)
            except RequestValidationError as error:
                problems = tuple(_address_problem(item) for item in error.errors())
                return error_page(request, HTTPStatus.UNPROCESSABLE_ENTITY, "The address is not valid", problems)

        return answer_with_page


def _status_of(error: DomainError) -> int:
    return HTTPStatus.FORBIDDEN if isinstance(error, guard.ForeignForm) else status_of(error)


def _address_problem(item: dict[str, Any]) -> FieldProblem:
    field = ".".join(str(part) for part in item["loc"][1:])
    unknown = item["type"] == "extra_forbidden"
    message = "this parameter is unknown" if unknown else str(item["msg"])
    return FieldProblem(field or "address", message, "remove it" if unknown else "correct it, or leave it out")
