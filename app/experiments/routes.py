"""Experiments: register a manifest, follow it, cancel it."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from sse_starlette import EventSourceResponse

from app.access.gate import needs
from app.delivery.wishes import once, sparse, versioned
from app.domain.access import Scope
from app.domain.errors import IllegalTransition, ManifestRefused, NotFound
from app.domain.layout import as_written
from app.domain.manifest import Manifest, parse_manifest
from app.errors import PayloadTooLarge, TooManyStreams, UnsupportedMediaType, responses
from app.experiments.events import Streams
from app.experiments.examples import MANIFEST
from app.experiments.listing.search import ApiSearch
from app.experiments.schemas import OWNER, PRIORITY, ExperimentPage, ExperimentRead, Owner, Priority, Shelving
from app.experiments.service import ExperimentService
from app.intake import DocumentRefused
from app.preflight.body import decoded_body
from app.state import DatabaseDep, SettingsDep

router = APIRouter(prefix="/api/v1/experiments", tags=["experiments"], dependencies=[needs(Scope.READ)])

_BODY: Mapping[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A manifest as JSON or YAML; docs/manifest.md lists its fields. At most 1 MiB.",
        "content": {
            "application/json": {"schema": Manifest.model_json_schema(), "examples": {"demo": {"value": MANIFEST}}},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


def experiment_service(database: DatabaseDep, settings: SettingsDep) -> ExperimentService:
    """The service of this request."""
    return ExperimentService(database, settings)


ServiceDep = Annotated[ExperimentService, Depends(experiment_service)]


@router.post(
    "",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT), once()],
    responses=responses(ManifestRefused, IllegalTransition, DocumentRefused, PayloadTooLarge, UnsupportedMediaType)
    | {200: {"model": ExperimentRead, "description": "The same manifest was registered before; this is it."}},
    openapi_extra=dict(_BODY),
)
async def register(
    request: Request,
    response: Response,
    service: ServiceDep,
    owner: Annotated[Owner, Query()] = OWNER,
    priority: Annotated[Priority, Query()] = PRIORITY,
) -> ExperimentRead:
    """Register a manifest. The same manifest again gives the first experiment unchanged, with status 200."""
    document = await decoded_body(request)
    manifest = parse_manifest(document)
    with as_written(document):
        experiment, created = await service.register(manifest, owner, priority)
    response.status_code = 201 if created else 200
    response.headers["Location"] = experiment.links.self
    return experiment


@router.get("", dependencies=[sparse(ExperimentRead, "items")], responses=responses(NotFound))
async def list_experiments(service: ServiceDep, search: Annotated[ApiSearch, Query()]) -> ExperimentPage:
    """Experiments, newest first, as far as they are asked for; archived ones only with ``archived``."""
    return await service.page(search, search.limit)


@router.get("/{experiment_id}", dependencies=[versioned(), sparse(ExperimentRead)], responses=responses(NotFound))
async def read_experiment(experiment_id: str, service: ServiceDep) -> ExperimentRead:
    """One experiment and its progress, by digest or a unique prefix of at least 12 digits."""
    return await service.read(experiment_id)


@router.patch("/{experiment_id}", dependencies=[needs(Scope.SUBMIT)], responses=responses(NotFound))
async def shelve(experiment_id: str, wish: Shelving, service: ServiceDep) -> ExperimentRead:
    """Set an experiment's tags, or archive it. Neither is part of the manifest; archiving stops and deletes nothing."""
    return await service.shelve(experiment_id, wish)


@router.get("/{experiment_id}/manifest", dependencies=[versioned()], responses=responses(NotFound))
async def read_manifest(experiment_id: str, service: ServiceDep) -> Response:
    """The manifest's canonical bytes, whose sha256 is the experiment's id."""
    manifest = await service.manifest(experiment_id)
    return Response(manifest.canonical(), media_type="application/json")


@router.post(
    "/{experiment_id}/cancel",
    dependencies=[needs(Scope.SUBMIT), once()],
    responses=responses(NotFound, IllegalTransition),
)
async def cancel(experiment_id: str, service: ServiceDep) -> ExperimentRead:
    """Stop an experiment; evidence already recorded is kept. Repeating it changes nothing."""
    return await service.cancel(experiment_id)


@router.get(
    "/{experiment_id}/events",
    responses=responses(NotFound, TooManyStreams)
    | {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    response_class=EventSourceResponse,
)
async def follow(experiment_id: str, request: Request, service: ServiceDep) -> EventSourceResponse:
    """Server-sent events: ``change`` with the new version at each change, ``reconnect`` after ten minutes.

    While a run is under way also ``live`` (its values, each second) and ``log`` (the end of its engine's log): both
    unaudited, stored nowhere and no evidence.
    """
    experiment = await service.read(experiment_id)
    streams = cast("Streams", request.app.state.streams)
    events = streams.follow(experiment.id, request.client.host if request.client else "")
    return EventSourceResponse(events, headers={"Cache-Control": "no-store"})
