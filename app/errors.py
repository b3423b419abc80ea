"""Errors as HTTP: one shape, RFC 9457 problem details with ``problems: [{field, message, remedy}]``, on every path.

Domain and services raise facts; this is the only place that knows their status codes.
"""

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from app.domain.access import NotAllowed, NotAuthenticated, TooManyRequests
from app.domain.errors import DomainError, EvidenceRefused, FieldProblem, IllegalTransition, NotFound

MEDIA_TYPE = "application/problem+json"


class PayloadTooLarge(DomainError):
    """The body is longer than the path accepts."""

    title = "The body is too large"


class UnsupportedMediaType(DomainError):
    """The body's content type or encoding is not one that the path reads."""

    title = "The content type is not supported"


class ForeignHost(DomainError):
    """The Host header names another site (DNS rebinding), or a foreign page sent the request."""

    title = "The request was not meant for this service"


class TokenInAddress(DomainError):
    """A token or password was sent in the query string."""

    title = "The address holds a secret"


class TooManyStreams(TooManyRequests):
    """Every event stream that this process offers is in use."""

    title = "Too many event streams"


_STATUS: dict[type[DomainError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    IllegalTransition: HTTPStatus.CONFLICT,
    EvidenceRefused: HTTPStatus.CONFLICT,
    PayloadTooLarge: HTTPStatus(413),
    UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ForeignHost: HTTPStatus.FORBIDDEN,
    TokenInAddress: HTTPStatus.BAD_REQUEST,
    NotAuthenticated: HTTPStatus.UNAUTHORIZED,
    NotAllowed: HTTPStatus.FORBIDDEN,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
}
"""A fact that is not here is the sender's mistake in the body: 422."""


class ProblemItem(BaseModel):
    """One wrong field and what to do about it."""

    field: str
    message: str
    remedy: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    problems: list[ProblemItem]


def status_of(error: DomainError) -> int:
    """The HTTP status of a fact."""
    return next((int(s) for kind, s in _STATUS.items() if isinstance(error, kind)), 422)


def problem_response(error: DomainError, instance: str) -> JSONResponse:
    """``error`` in the one shape; ``instance`` is the path that was asked for."""
    answer = _response(status_of(error), error.title, error.problems, instance)
    answer.headers.update(headers_of(error))
    return answer


def headers_of(error: DomainError) -> dict[str, str]:
    """What a status promises to say beside its body."""
    if isinstance(error, NotAuthenticated):
        return {"WWW-Authenticate": 'Bearer realm="Verdraft"'}
    return {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyRequests) else {}


def internal_error(request_id: str, instance: str) -> JSONResponse:
    """A fault of ours: an opaque id to find it in the log by, nothing else."""
    fault = FieldProblem("(server)", f"internal error {request_id}", "report this id; the service's log has the cause")
    return _response(500, "Internal error", (fault,), instance)


def responses(*errors: type[DomainError]) -> dict[int | str, dict[str, Any]]:
    """The ``responses=`` of a route that may raise these."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for error in (*errors, ForeignHost, NotAuthenticated, TooManyRequests, TokenInAddress):
        schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
        by_status[status_of(error())] = {"description": error.title, "model": Problem, "content": {MEDIA_TYPE: schema}}
    return by_status


def install(app: FastAPI) -> None:
    """Answer every error of routes and routing in the one shape."""

    @app.exception_handler(DomainError)
    async def on_fact(request: Request, error: DomainError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        return problem_response(error, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def on_parameter(request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        problems = tuple(_parameter_problem(item) for item in error.errors())
        return _response(422, "The request was refused", problems, request.url.path)

    @app.exception_handler(HTTPException)
    async def on_routing(request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        phrase = HTTPStatus(error.status_code).phrase
        fault = FieldProblem(request.method, str(error.detail), "see /openapi.json for the paths and methods")
        response = _response(error.status_code, phrase, (fault,), request.url.path)
        response.headers.update(error.headers or {})
        return response


def _parameter_problem(item: dict[str, Any]) -> FieldProblem:
    field = ".".join(str(part) for part in item["loc"])
    return FieldProblem(field, str(item["msg"]), "correct it; /openapi.json gives its range")


def _response(status: int, title: str, problems: tuple[FieldProblem, ...], instance: str) -> JSONResponse:
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": "; ".join(f"{p.field}: {p.message}" for p in problems),
        "instance": instance,
        "problems": [asdict(p) for p in problems],
    }
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE)
