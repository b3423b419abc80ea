"""Ask whether a manifest could be run, and what it would cost, without registering it."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from app.access.gate import needs
from app.delivery.wishes import once
from app.domain.access import Scope
from app.domain.errors import ManifestRefused
from app.domain.manifest import Manifest, parse_manifest
from app.errors import PayloadTooLarge, UnsupportedMediaType, responses
from app.intake import DocumentRefused
from app.preflight.body import decoded_body
from app.preflight.schemas import PreflightRead
from app.preflight.service import PreflightService
from app.state import DatabaseDep

router = APIRouter(prefix="/api/v1/preflight", tags=["preflight"], dependencies=[needs(Scope.READ)])

_BODY: Mapping[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A manifest as JSON or YAML, as for POST /api/v1/experiments. At most 1 MiB.",
        "content": {
            "application/json": {"schema": Manifest.model_json_schema()},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


def preflight_service(database: DatabaseDep) -> PreflightService:
    """The service of this request."""
    return PreflightService(database)


ServiceDep = Annotated[PreflightService, Depends(preflight_service)]


@router.post(
    "",
    dependencies=[once()],
    responses=responses(ManifestRefused, DocumentRefused, PayloadTooLarge, UnsupportedMediaType),
    openapi_extra=dict(_BODY),
)
async def check_manifest(request: Request, service: ServiceDep) -> PreflightRead:
    """Check a manifest. Failed checks are listed with status 200; 422 is for a document that is no manifest."""
    return await service.check(parse_manifest(await decoded_body(request)))
