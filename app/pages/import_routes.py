"""Other tools' results in the browser: what is here, a file to bring, and one to forget."""

from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import UploadFile

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import DomainError, FieldProblem, NotFound
from app.domain.vocabulary import SHA256_PATTERN, Sha256
from app.interop.imports.result import LABEL_MAX
from app.pages import guard
from app.pages.page_route import PageRoute, Source
from app.pages.views import page

SHOWN: Final = 50
FIELDS_MAX: Final = 5
_INPUTS: Final = {"experiment": "experiment", "label": "label"}
"""Fields of a refusal that are inputs; every other one is about the file."""

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


@router.get("/imports")
async def list_imports(request: Request, source: Source, cursor: Sha256 | None = None) -> Response:
    """The results that were brought here, newest first."""
    imports, following = await source.imports.page(cursor, SHOWN)
    return page(request, "imports.html", {"imports": imports, "following": following, "cursor": cursor})


@router.get("/imports/new")
async def new_import(
    request: Request, experiment: Annotated[str, Query(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
) -> Response:
    """The form for a file, perhaps to be shown beside an experiment."""
    return _form_page(request, {"experiment": experiment})


@router.post("/imports/new", dependencies=[needs(Scope.SUBMIT)])
async def add_import(request: Request, source: Source) -> Response:
    """Keep a result file; problems come back beside their inputs."""
    async with request.form(max_files=1, max_fields=FIELDS_MAX) as posted:
        typed = {name: value.strip() for name, value in posted.items() if isinstance(value, str)}
        guard.check_form(request, typed.pop(guard.FIELD, ""))
        file = posted.get("file")
        content = await file.read() if isinstance(file, UploadFile) and file.filename else b""
    problems = list(_missing(typed, content))
    try:
        if not problems:
            stored, _ = await source.imports.add(content, typed["label"], typed.get("experiment") or None)
            beside = stored.experiment_id
            at = f"/experiments/{beside[:12]}/compare#imports-title" if beside else "/imports"
            return RedirectResponse(at, HTTPStatus.SEE_OTHER)
    except DomainError as error:
        problems = [*error.problems]
    return _form_page(request, typed, problems, status=HTTPStatus.UNPROCESSABLE_ENTITY)


@router.post("/imports/{digest}/forget", dependencies=[needs(Scope.SUBMIT)])
async def forget_import(
    request: Request, digest: Annotated[str, Path(pattern=SHA256_PATTERN)], source: Source
) -> Response:
    """Forget one; that it is gone already is as good."""
    async with request.form(max_files=0, max_fields=FIELDS_MAX) as posted:
        guard.check_form(request, str(posted.get(guard.FIELD, "")))
    with suppress(NotFound):
        await source.imports.remove(digest)
    return RedirectResponse("/imports", HTTPStatus.SEE_OTHER)


def _missing(typed: dict[str, str], content: bytes) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if not content:
        found.append(FieldProblem("file", "no file was chosen, or it is empty", "choose one"))
    if not 0 < len(typed.get("label", "")) <= LABEL_MAX:
        found.append(
            FieldProblem("label", f"it has not 1 to {LABEL_MAX} characters", "say what was measured and where")
        )
    return found


def _form_page(
    request: Request, typed: dict[str, str], problems: list[FieldProblem] | None = None, *, status: int = HTTPStatus.OK
) -> Response:
    beside: dict[str, list[FieldProblem]] = {}
    for problem in problems or []:
        beside.setdefault(_INPUTS.get(problem.field, "file"), []).append(problem)
    context: dict[str, Any] = {"typed": typed, "problems": problems or [], "beside": beside, "label_max": LABEL_MAX}
    return page(request, "import.html", context, status=status)
