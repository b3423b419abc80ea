"""Evidence: traces in; observations, series, logs and workers' capabilities out."""

from typing import Annotated
from uuid import UUID

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import PlainTextResponse

from app.access.gate import needs
from app.delivery.wishes import once, sparse, versioned
from app.domain.access import Scope
from app.domain.errors import NotFound, TraceRefused
from app.domain.series import Series
from app.domain.timeline import Track
from app.domain.vocabulary import Sha256
from app.errors import PayloadTooLarge, UnsupportedMediaType, responses
from app.evidence.examples import TRACE
from app.evidence.schemas import CapabilityRead, ObservationPage, TraceRead
from app.evidence.service import EvidenceService
from app.intake import DocumentRefused
from app.state import DatabaseDep, SettingsDep
from app.timeline_figure import timeline_figure

router = APIRouter(prefix="/api/v1", tags=["evidence"], dependencies=[needs(Scope.READ)])

_TRACE_TYPES = ("application/jsonl", "application/x-ndjson", "application/octet-stream")
_ZSTD = "application/zstd"
_BODY = {
    "requestBody": {
        "required": True,
        "description": "JSON Lines: a header, then one request a line; docs/trace.md. At most 64 MiB, "
        "or that much of application/zstd, which may unpack to 512 MiB.",
        "content": {"application/jsonl": {"schema": {"type": "string"}, "examples": {"small": {"value": TRACE}}}},
    }
}


def evidence_service(database: DatabaseDep, settings: SettingsDep) -> EvidenceService:
    """The service of this request."""
    return EvidenceService(database, settings)


ServiceDep = Annotated[EvidenceService, Depends(evidence_service)]


@router.post(
    "/traces",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT), once()],
    responses=responses(TraceRefused, DocumentRefused, PayloadTooLarge, UnsupportedMediaType)
    | {200: {"model": TraceRead, "description": "The same trace was stored before; this is it."}},
    openapi_extra=_BODY,
)
async def add_trace(request: Request, response: Response, service: ServiceDep) -> TraceRead:
    """Store a trace under its digest. The same trace again answers 200."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (*_TRACE_TYPES, _ZSTD):
        raise UnsupportedMediaType.of(
            "Content-Type", f"{media_type or 'nothing'} is not read here", f"send application/jsonl or {_ZSTD}"
        )
    trace, created = await service.add_trace(await request.body(), compressed=media_type == _ZSTD)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/api/v1/traces/{trace.digest}"
    return trace


@router.get("/traces", dependencies=[sparse(TraceRead)])
async def list_traces(service: ServiceDep) -> list[TraceRead]:
    """Every stored trace, newest first."""
    return await service.traces()


@router.get("/traces/{digest}", dependencies=[versioned(), sparse(TraceRead)], responses=responses(NotFound))
async def read_trace(digest: Sha256, service: ServiceDep) -> TraceRead:
    """One stored trace."""
    return await service.trace(digest)


@router.get("/runs/{run_id}/observations", response_model=ObservationPage, responses=responses(NotFound))
async def list_observations(
    run_id: UUID,
    service: ServiceDep,
    cursor: Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """What the client saw of each request of a run, by request id."""
    page = await service.observations(run_id, cursor, limit)
    # Hundreds of answers: the way through Python's own values would take ten times as long.
    return Response(page.model_dump_json(), media_type="application/json")


@router.get("/runs/{run_id}/series", responses=responses(NotFound))
async def list_series(run_id: UUID, service: ServiceDep) -> list[Series]:
    """What was sampled during a run: the engine's metrics, its devices and its host."""
    return await service.series(run_id)


@router.get("/runs/{run_id}/timeline", responses=responses(NotFound))
async def read_timeline(run_id: UUID, service: ServiceDep) -> tuple[Track, ...]:
    """A run on one clock: offered and in flight, the engine's queue and cache, its device and host."""
    return await service.timeline(run_id)


@router.get(
    "/runs/{run_id}/figures/timeline",
    responses=responses(NotFound) | {200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def read_timeline_figure(run_id: UUID, service: ServiceDep) -> Response:
    """The timeline as Plotly's JSON (``data`` and ``layout``)."""
    figure = await to_thread.run_sync(timeline_figure, await service.timeline(run_id))
    return Response(figure.to_json(), media_type="application/json")


@router.get("/sessions/{session_id}/log", responses=responses(NotFound), response_class=PlainTextResponse)
async def read_log(session_id: UUID, service: ServiceDep) -> str:
    """The end of the server's log, as plain text."""
    return await service.log(session_id)


@router.get("/capabilities")
async def list_capabilities(service: ServiceDep) -> list[CapabilityRead]:
    """What each worker can run: runtimes, models, hardware and software."""
    return await service.capabilities()
