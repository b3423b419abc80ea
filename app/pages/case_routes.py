"""Pages of single requests: a list of millions, and one of them under every arm."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from app.cases.query import CaseQuery, Sort
from app.cases.routes import ServiceDep
from app.domain.trace_request import RequestId
from app.domain.vocabulary import Name
from app.pages.case_view import shown_case
from app.pages.case_words import COLUMNS, SORT_WORDS, choices
from app.pages.page_route import PageRoute, Source
from app.pages.views import page

CASES_SHOWN: Final = 50

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


@router.get("/experiments/{prefix}/cases")
async def show_cases(
    request: Request, prefix: str, query: Annotated[CaseQuery, Query()], source: Source, cases: ServiceDep
) -> Response:
    """Requests by what is asked for; the query is the page's whole state."""
    experiment = await source.experiments.read(prefix)
    manifest = await source.experiments.manifest(experiment.id)
    here = f"/experiments/{experiment.id[:12]}/cases"
    address = query.address(here)
    context = {
        "experiment": experiment,
        "manifest": manifest,
        "query": query,
        "found": await cases.page(experiment.id, query, CASES_SHOWN),
        "here": here,
        "columns": COLUMNS,
        "sorts": {sort: SORT_WORDS[sort] for sort in Sort},
        "choices": choices(manifest),
    }
    response = page(request, "cases.html", context)
    if not request.headers.get("hx-current-url", "").endswith(address):  # a page that asks again makes no history
        response.headers["HX-Push-Url"] = address
    return response


@router.get("/experiments/{prefix}/cases/{workload}/{request_id}")
async def show_case(
    request: Request, prefix: str, workload: Name, request_id: RequestId, source: Source, *, cases: ServiceDep
) -> Response:
    """One request under every arm, block by block."""
    experiment = await source.experiments.read(prefix)
    manifest = await source.experiments.manifest(experiment.id)
    one = await cases.one(experiment.id, workload, request_id)
    context = {
        "experiment": experiment,
        "manifest": manifest,
        "case": shown_case(one),
        "here": f"/experiments/{experiment.id[:12]}/cases",
    }
    return page(request, "case.html", context)
