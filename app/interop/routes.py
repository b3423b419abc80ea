"""Evidence out in other tools' formats, other tools' results in; these are never mixed with what was measured here."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.access.gate import needs
from app.delivery.wishes import once
from app.domain.access import Scope
from app.domain.errors import NotFound
from app.domain.vocabulary import Sha256
from app.errors import PayloadTooLarge, UnsupportedMediaType, responses
from app.interop.exports.formats import FORMATS
from app.interop.imports.result import LABEL_MAX, ImportRefused
from app.interop.schemas import ImportRead
from app.interop.service import AlreadyImported, ExportService, ImportService
from app.state import DatabaseDep

router = APIRouter(prefix="/api/v1", tags=["interoperability"], dependencies=[needs(Scope.READ)])

_TYPES: Final = ("application/json", "application/jsonl", "application/octet-stream")
_BODY: Final = {
    "requestBody": {
        "required": True,
        "description": "The result file as its tool wrote it; docs/imports.md. At most 64 MiB.",
        "content": {name: {"schema": {"type": "string"}} for name in _TYPES},
    }
}
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_EXPORTED: Final = {
    media_type: _BINARY
    for chosen in FORMATS.values()
    for media_type in (chosen.media_type, *([chosen.one_run.media_type] if chosen.one_run else []))
}


def import_service(database: DatabaseDep) -> ImportService:
    """The service of this request."""
    return ImportService(database)


def export_service(database: DatabaseDep) -> ExportService:
    """The service of this request."""
    return ExportService(database)


ImportsDep = Annotated[ImportService, Depends(import_service)]
ExportsDep = Annotated[ExportService, Depends(export_service)]


@router.get(
    "/experiments/{experiment_id}/export/{format_name}",
    responses=responses(NotFound) | {200: {"content": _EXPORTED}},
    response_class=StreamingResponse,
)
async def export(
    experiment_id: str,
    format_name: str,
    service: ExportsDep,
    run: Annotated[
        str | None, Query(max_length=300, description="block/arm/workload/load/attempt; default all.")
    ] = None,
) -> StreamingResponse:
    """The evidence of every committed run as csv, jsonl, parquet-requests, parquet-chunks, vllm or llm-d."""
    opened = await service.open(experiment_id, format_name, run)
    headers = {"Content-Disposition": f'attachment; filename="{opened.file_name}"'}
    return StreamingResponse(service.content(opened), media_type=opened.format.media_type, headers=headers)


@router.post(
    "/imports",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT), once()],
    responses=responses(ImportRefused, NotFound, AlreadyImported, PayloadTooLarge, UnsupportedMediaType)
    | {200: {"model": ImportRead, "description": "The same file was imported before; this is it."}},
    openapi_extra=_BODY,
)
async def add_import(
    request: Request,
    response: Response,
    service: ImportsDep,
    label: Annotated[str, Query(min_length=1, max_length=LABEL_MAX, description="What to call it.")],
    experiment: Annotated[str | None, Query(max_length=64, description="Beside which it is to be shown.")] = None,
) -> ImportRead:
    """Keep another tool's result, marked as not controlled here. The same file again answers 200."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _TYPES:
        problem = f"{media_type or 'nothing'} is not read here"
        raise UnsupportedMediaType.of("Content-Type", problem, f"send {' or '.join(_TYPES)}")
    stored, created = await service.add(await request.body(), label, experiment)
    response.status_code = 201 if created else 200
    return stored


@router.get("/imports")
async def list_imports(service: ImportsDep) -> list[ImportRead]:
    """Every imported result, newest first."""
    return await service.all()


@router.get("/experiments/{experiment_id}/imports", responses=responses(NotFound))
async def list_experiment_imports(experiment_id: str, service: ImportsDep) -> list[ImportRead]:
    """The imported results beside an experiment, newest first."""
    return await service.of_experiment(experiment_id)


@router.delete("/imports/{digest}", status_code=204, dependencies=[needs(Scope.SUBMIT)], responses=responses(NotFound))
async def remove_import(digest: Sha256, service: ImportsDep) -> None:
    """Forget an imported result."""
    await service.remove(digest)
