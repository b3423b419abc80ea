"""An experiment's report, its figures and the bundle that lets others recompute both."""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated, Final, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse
from starlette.background import BackgroundTask

from app.access.gate import needs
from app.comparisons.cache import ReportCache
from app.comparisons.schemas import FigureRead
from app.comparisons.service import ComparisonService
from app.delivery.wishes import sparse, versioned
from app.domain.access import Scope
from app.domain.errors import EvidenceRefused, NotFound
from app.domain.report import Report
from app.errors import responses
from app.figures import FIGURES, View
from app.figures.table import as_csv
from app.printed.html import POLICY, printable
from app.printed.markdown import markdown
from app.state import DatabaseDep, SettingsDep

ROOT: Final = "Verdraft-Root"
"""Header with the digest over the whole bundle."""

router = APIRouter(
    prefix="/api/v1/experiments/{experiment_id}",
    tags=["reports"],
    dependencies=[needs(Scope.READ)],
    responses=responses(NotFound, EvidenceRefused),
)


def comparison_service(request: Request, database: DatabaseDep, settings: SettingsDep) -> ComparisonService:
    """The service of this request."""
    return ComparisonService(database, cast("ReportCache", request.app.state.reports), settings)


Against = Annotated[
    str | None,
    Query(
        description="Another experiment that the pins are held against, instead of the hosts that workers published."
    ),
]
ServiceDep = Annotated[ComparisonService, Depends(comparison_service)]
Seen = Annotated[View, Query()]


class MarkdownResponse(PlainTextResponse):
    """Documented as what it is."""

    media_type = "text/markdown"


class CsvResponse(PlainTextResponse):
    """As above."""

    media_type = "text/csv"


@router.get("/report", response_model=Report, dependencies=[versioned(), sparse(Report)])
async def read_report(experiment_id: str, service: ServiceDep, against: Against = None) -> Response:
    """Verdicts with the numbers behind them, ``interim`` until all blocks are complete; ``expiry``: do they hold?"""
    known = await service.dated(experiment_id, against)
    return Response(known.document, media_type="application/json")


@router.get("/report.md", response_class=MarkdownResponse)
async def read_markdown(experiment_id: str, service: ServiceDep, against: Against = None) -> Response:
    """The report as Markdown: the answer first, every number with its interval, n and method at the end."""
    content = await asyncio.to_thread(markdown, (await service.dated(experiment_id, against)).report)
    return MarkdownResponse(content)


@router.get("/report.html", response_class=HTMLResponse)
async def read_printable(experiment_id: str, service: ServiceDep, against: Against = None) -> Response:
    """The same as one HTML file to print or send; it loads nothing."""
    content = await asyncio.to_thread(printable, (await service.dated(experiment_id, against)).report)
    return HTMLResponse(content, headers={"Content-Security-Policy": POLICY})


@router.get("/figures")
async def list_figures(experiment_id: str, service: ServiceDep) -> list[FigureRead]:
    """The figures of the report, by name."""
    report = await service.report(experiment_id)
    api = f"/api/v1/experiments/{report.experiment}/figures"
    return [FigureRead(name=name, url=f"{api}/{name}") for name in FIGURES]


@router.get("/figures/{name}.csv", response_class=CsvResponse)
async def read_figure_csv(experiment_id: str, name: str, view: Seen, service: ServiceDep) -> Response:
    """The figure's numbers, all digits, with interval, n and method; no cell is a formula."""
    figure = await service.figure(experiment_id, name, view)
    headers = {"Content-Disposition": f'attachment; filename="{figure.name}.csv"'}
    return CsvResponse(as_csv(figure), headers=headers)


@router.get("/figures/{name}", responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}})
async def read_figure(experiment_id: str, name: str, view: Seen, service: ServiceDep) -> Response:
    """One figure as Plotly's JSON (``data`` and ``layout``); it states only numbers of the report."""
    figure = await service.figure(experiment_id, name, view)
    content = await asyncio.to_thread(lambda: cast("str", figure.draw().to_json()))
    return Response(content, media_type="application/json")


@router.get(
    "/bundle",
    responses={200: {"content": {"application/zstd": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def read_bundle(
    experiment_id: str,
    service: ServiceDep,
    *,
    with_raw: Annotated[bool, Query(description="Whole logs and raw reads too, not only start-up logs.")] = False,
) -> Response:
    """Manifest, traces, evidence and report in one tar.zst; check it with ``verdraft verify``."""
    kept = AsyncExitStack()
    bundle = await kept.enter_async_context(service.bundle(experiment_id, with_raw=with_raw))
    return FileResponse(
        bundle.path,
        media_type="application/zstd",
        filename=f"verdraft-{bundle.experiment[:12]}.tar.zst",
        headers={ROOT: bundle.root},
        background=BackgroundTask(kept.aclose),
    )
