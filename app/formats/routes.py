"""Formats: the JSON Schema of everything that is read or written, for forms, editors and other programs."""

from fastapi import APIRouter, Response

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import NotFound
from app.errors import responses
from app.schemas import NAMES, schema

router = APIRouter(prefix="/api/v1/schemas", tags=["formats"], dependencies=[needs(Scope.READ)])


@router.get("")
async def list_schemas() -> dict[str, str]:
    """The name of each format and the address of its schema."""
    return {name: f"{router.prefix}/{name}" for name in NAMES}


@router.get("/{name}", responses=responses(NotFound))
async def read_schema(name: str) -> Response:
    """The JSON Schema of one format; ``manifest-written`` is what a person may post as a manifest."""
    if name not in NAMES:
        raise NotFound.of("name", f"there is no format {name!r}", f"use one of {', '.join(NAMES)}")
    return Response(schema(name), media_type="application/json")
