"""Workloads in the browser: what is stored, one of them, and a file looked at before it is stored."""

from http import HTTPStatus
from pathlib import Path as Directory
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import DomainError, FieldProblem
from app.domain.refusals import field_problems
from app.domain.vocabulary import Sha256
from app.pages import guard
from app.pages.page_route import PageRoute, Source
from app.pages.views import page
from app.pages.workloads import asked, workload_view
from app.state import SettingsDep
from app.workloads.choices import OnBadRow, Turns
from app.workloads.readers.registry import FORMATS
from app.workloads.uploading import EXAMPLES, Upload, UploadWish, read_upload, tokenizers

FIELDS_MAX = 20
SHOWN = 50
_WISH = TypeAdapter(UploadWish)

Prefix = Annotated[str, Path(pattern=r"^[0-9a-f]{12,64}$")]

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


@router.get("/workloads")
async def list_workloads(request: Request, source: Source, cursor: Sha256 | None = None) -> Response:
    """The stored workloads, newest first."""
    traces, following = await source.evidence.trace_page(cursor, SHOWN)
    return page(request, "workloads.html", {"traces": traces, "following": following, "cursor": cursor})


@router.get("/workloads/new")
async def new_workload(request: Request, settings: SettingsDep) -> Response:
    """The form for a file."""
    return _form_page(request, {}, _choices(settings.model_root))


@router.post("/workloads/new/preview")
async def preview_workload(request: Request, settings: SettingsDep) -> Response:
    """Read the file and show what it would become; nothing is stored."""
    typed, answer = await _read(request, settings.model_root)
    problems = answer if isinstance(answer, tuple) else ()
    upload = None if isinstance(answer, tuple) else answer
    return _form_page(request, typed, _choices(settings.model_root), upload, problems)


@router.post("/workloads/new", dependencies=[needs(Scope.SUBMIT)])
async def store_workload(request: Request, source: Source, settings: SettingsDep) -> Response:
    """Read the file and store the trace that it makes."""
    typed, answer = await _read(request, settings.model_root)
    if isinstance(answer, tuple):
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return _form_page(request, typed, _choices(settings.model_root), problems=answer, status=status)
    await source.evidence.store(answer.packed)
    return RedirectResponse(f"/workloads/{answer.summary.digest[:12]}", HTTPStatus.SEE_OTHER)


@router.get("/workloads/{prefix}")
async def show_workload(request: Request, prefix: Prefix, source: Source) -> Response:
    """One workload: read from its summary, whatever its size."""
    summary = await source.evidence.summary(prefix)
    examples = await source.evidence.first_requests(summary.digest, EXAMPLES)
    return page(request, "workload.html", {"view": workload_view(summary), "examples": examples, "asked": asked})


async def _read(request: Request, model_root: Directory) -> tuple[dict[str, str], Upload | tuple[FieldProblem, ...]]:
    """What was typed, and the file as a trace or its problems; raises ``ForeignForm``."""
    async with request.form(max_files=1, max_fields=FIELDS_MAX) as posted:
        typed = {name: value.strip() for name, value in posted.items() if isinstance(value, str)}
        guard.check_form(request, typed.pop(guard.FIELD, ""))
        try:
            return typed, await _upload(posted, typed, model_root)
        except ValidationError as error:
            return typed, tuple(field_problems(error))
        except DomainError as error:
            return typed, error.problems


async def _upload(posted: FormData, typed: dict[str, str], model_root: Directory) -> Upload:
    file = posted.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise DomainError.of("file", "no file was chosen", "choose one")
    wish = _WISH.validate_python({name: value for name, value in typed.items() if value})
    return await to_thread.run_sync(read_upload, file.file, file.filename, wish, model_root)


def _choices(model_root: Directory) -> dict[str, list[tuple[str, str]]]:
    return {
        "format_name": [("", "as the file says"), *((name, kind.title) for name, kind in FORMATS.items())],
        "on_bad_row": [(OnBadRow.REFUSE, "refuse the file"), (OnBadRow.SKIP, "leave it out and count it")],
        "turns": [
            (Turns.FIRST, "the first turn of each conversation"),
            (Turns.RECORDED, "every turn, with recorded answers"),
            (Turns.OWN, "every turn, with each arm's own answers"),
        ],
        "tokenizer": [("", "do not count tokens"), *((name, name) for name in tokenizers(model_root))],
    }


def _form_page(
    request: Request,
    typed: dict[str, str],
    choices: dict[str, list[tuple[str, str]]],
    upload: Upload | None = None,
    problems: tuple[FieldProblem, ...] = (),
    *,
    status: int = HTTPStatus.OK,
) -> Response:
    context: dict[str, Any] = {"typed": typed, "choices": choices, "problems": problems, "upload": upload}
    if upload is not None:
        context |= {"view": workload_view(upload.summary, upload.warnings), "examples": upload.examples, "asked": asked}
    context["submitted"] = request.url.path == "/workloads/new"
    return page(request, "upload.html", context, status=status)
