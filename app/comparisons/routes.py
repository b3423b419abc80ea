"""An experiment's report, its figures and the bundle that lets others recompute both."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response

from app.comparisons.schemas import FigureRead
from app.comparisons.service import ComparisonService, ReportCache
from app.domain.errors import EvidenceRefused, NotFound
from app.domain.report import Report
from app.errors import responses
from app.figures import FIGURES
from app.state import DatabaseDep

router = APIRouter(
    prefix="/api/v1/experiments/{experiment_id}", tags=["reports"], responses=responses(NotFound, EvidenceRefused)
)


def comparison_service(request: Request, database: DatabaseDep) -> ComparisonService:
    """The service of this request."""
    return ComparisonService(database, cast("ReportCache", request.app.state.reports))


ServiceDep = Annotated[ComparisonService, Depends(comparison_service)]


@router.get("/report")
async def read_report(experiment_id: str, service: ServiceDep) -> Report:
    """Verdicts with the numbers behind them; ``interim`` until every block is complete."""
    return await service.report(experiment_id)


@router.get("/figures")
async def list_figures(experiment_id: str, service: ServiceDep) -> list[FigureRead]:
    """The figures of the report, by name."""
    report = await service.report(experiment_id)
    api = f"/api/v1/experiments/{report.experiment}/figures"
    return [FigureRead(name=name, url=f"{api}/{name}") for name in FIGURES]


@router.get("/figures/{name}", responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}})
async def read_figure(experiment_id: str, name: str, service: ServiceDep) -> Response:
    """One figure as Plotly's JSON (``data`` and ``layout``); it states only numbers of the report."""
    return Response(await service.figure(experiment_id, name), media_type="application/json")


@router.get(
    "/bundle",
    responses={200: {"content": {"application/zstd": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def read_bundle(experiment_id: str, service: ServiceDep) -> Response:
    """Manifest, traces, evidence and report in one tar.zst; check it with ``verdraft verify``."""
    digest, content = await service.bundle(experiment_id)
    name = f"verdraft-{digest[:12]}.tar.zst"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/zstd", headers=headers)
