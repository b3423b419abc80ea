"""The cases of an experiment: filtered, sorted and paged, and as CSV."""

from collections.abc import AsyncGenerator
from typing import Annotated, Final, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.access.gate import needs
from app.cases.filling.background import Fillings
from app.cases.query import CaseQuery
from app.cases.schemas import CasePage
from app.cases.service import CSV_ROWS_MAX, CaseService
from app.cases.table import header, lines
from app.domain.access import Scope
from app.domain.errors import NotFound
from app.errors import responses
from app.state import DatabaseDep, SettingsDep

BOUND: Final = "Verdraft-Rows-Max"
"""Header: a CSV has no more rows than this; `after` goes on where it ends."""


class CaseParameters(CaseQuery):
    """As the page's address, and how many to a page."""

    limit: Annotated[int, Query(ge=1, le=1000)] = 100


router = APIRouter(
    prefix="/api/v1/experiments/{experiment_id}",
    tags=["cases"],
    dependencies=[needs(Scope.READ)],
    responses=responses(NotFound),
)


def case_service(request: Request, database: DatabaseDep, settings: SettingsDep) -> CaseService:
    """The service of this request."""
    return CaseService(database, cast("Fillings", request.app.state.fillings), settings)


ServiceDep = Annotated[CaseService, Depends(case_service)]


@router.get("/cases", response_model=CasePage)
async def list_cases(experiment_id: str, query: Annotated[CaseParameters, Query()], service: ServiceDep) -> Response:
    """Requests of complete blocks under every arm. `after` is the page before's `next_cursor`."""
    page = await service.page(experiment_id, query, query.limit)
    return Response(page.model_dump_json(), media_type="application/json")


@router.get("/cases.csv", response_class=StreamingResponse, responses={200: {"content": {"text/csv": {}}}})
async def export_cases(experiment_id: str, query: Annotated[CaseQuery, Query()], service: ServiceDep) -> Response:
    """The same as CSV, at most 100,000 rows; texts that begin like a formula have an apostrophe before them."""
    first = await service.page(experiment_id, query, 1)  # whatever cannot be done is refused before the first byte
    cut = first.total > CSV_ROWS_MAX or first.total_is_bound
    name = f"verdraft-{experiment_id[:12]}-cases{f'-at-most-{CSV_ROWS_MAX}' if cut else ''}.csv"

    async def content() -> AsyncGenerator[bytes]:
        yield header()
        async for portion in service.rows(experiment_id, query):
            yield lines(portion)

    headers = {"Content-Disposition": f'attachment; filename="{name}"', BOUND: str(CSV_ROWS_MAX)}
    return StreamingResponse(content(), media_type="text/csv; charset=utf-8", headers=headers)
