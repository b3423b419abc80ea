"""The pages: each route reads what it shows and renders one template."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope as Asked

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.memory import MemoryPart
from app.domain.report import Report
from app.experiments.schemas import ExperimentRead
from app.figures.figure import Metric, strata_of
from app.interop.beside import imports_context
from app.pages import compare, guard, live, mismatches
from app.pages.across_routes import router as across_pages
from app.pages.case_routes import router as case_pages
from app.pages.cases import cases
from app.pages.decided import decided
from app.pages.delivered import delivered
from app.pages.failing import failure_groups
from app.pages.form_routes import router as forms
from app.pages.import_routes import router as imports
from app.pages.index_routes import router as index
from app.pages.live_routes import router as streams
from app.pages.operations import router as operations
from app.pages.page_route import PageRoute, Source
from app.pages.readings import Readings
from app.pages.tracks import summaries
from app.pages.views import STATIC, is_over, page
from app.pages.warned import warned
from app.pages.workload_routes import router as workloads

REQUESTS_SHOWN = 500
FOREVER = "public, max-age=31536000, immutable"

RequestId = Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")]


router = APIRouter(
    route_class=PageRoute,
    default_response_class=HTMLResponse,
    include_in_schema=False,
    dependencies=[needs(Scope.READ)],
)
router.include_router(index)
router.include_router(imports)
router.include_router(workloads)
router.include_router(operations)
router.include_router(case_pages)
router.include_router(across_pages)
router.include_router(streams)
router.include_router(forms)  # before the addresses with an experiment in them


@router.get("/experiments/{prefix}")
async def show_experiment(request: Request, prefix: str, source: Source, *, canceling: bool = False) -> Response:
    """The live page; once finished, the decision comes first."""
    context: dict[str, Any] = await _live_context(source, prefix)
    context |= {"canceling": canceling, "is_decided": False}
    report: Report | None = context["report"]
    if is_over(context["experiment"].state) and report and report.verdicts:
        context |= decided(report) | mismatches.WORDS | {"is_decided": True, "address": _absolute(request)}
        context["noise"] = await source.comparisons.host_noise(report)
    return page(request, "experiment.html", context)


@router.get("/experiments/{prefix}/live")
async def show_live_fragment(request: Request, prefix: str, source: Source) -> Response:
    """The parts of the live page that change; of an experiment that is over, that the page is to be loaded anew."""
    context = await _live_context(source, prefix)
    over = is_over(context["experiment"].state)
    return page(request, "_over.html" if over else "_running_parts.html", context)


@router.post("/experiments/{prefix}/cancel", dependencies=[needs(Scope.SUBMIT)])
async def cancel_experiment(request: Request, prefix: str, source: Source) -> Response:
    """Stop the experiment; evidence already recorded is kept."""
    async with request.form(max_files=0, max_fields=5) as posted:
        guard.check_form(request, str(posted.get(guard.FIELD, "")))
    experiment = await source.experiments.cancel(prefix)
    return RedirectResponse(f"{_address(experiment)}?canceling=true", HTTPStatus.SEE_OTHER)


@router.get("/experiments/{prefix}/compare")
async def show_comparison(
    request: Request, prefix: str, query: Annotated[compare.CompareQuery, Query()], source: Source
) -> Response:
    """Arms by stratum and load with intervals; the query is the page's whole state."""
    experiment = await source.experiments.read(prefix)
    known = await source.comparisons.ready(experiment.id)
    if known is None:
        return page(request, "computing.html", {"experiment": experiment})
    report = known.report
    query.check(report)
    axis, groups = compare.comparison_groups(report, query)
    verdict_axis, verdicts = compare.verdict_groups(report)
    context = {
        "experiment": experiment,
        "report": report,
        "query": query,
        "metrics": list(Metric),
        "strata": strata_of(report),
        "axis": axis,
        "groups": groups,
        "verdict_axis": verdict_axis,
        "verdict_groups": verdicts,
        "results": compare.result_groups(report, query),
        "figures": compare.drawn_figures(report, query),
        "mismatches": mismatches.shown_mismatches(report),
        **mismatches.WORDS,
        "delivered": delivered(report),
        "sessions": {(s.block, s.arm): s for s in await source.runs.sessions(experiment.id) if not s.diagnosing},
        "warned": warned(report.sessions),
        "memory_parts": [p for p in MemoryPart if any(p is r.part for m in report.memory for r in m.breakdown.rows)],
        "shown_of": report.manifest,
        "noise": await source.comparisons.host_noise(report),
        **imports_context(await source.imports.of_experiment(experiment.id), report),
    }
    response = page(request, "compare.html", context)
    response.headers["HX-Push-Url"] = query.address(f"{_address(experiment)}/compare")
    return response


@router.get("/experiments/{prefix}/mismatch")
async def show_mismatch(
    request: Request, prefix: str, query: Annotated[mismatches.MismatchQuery, Query()], source: Source
) -> Response:
    """One differing answer: its tokens, what the target would have chosen, and what was re-run."""
    experiment = await source.experiments.read(prefix)
    known = await source.comparisons.ready(experiment.id)
    if known is None:
        return page(request, "computing.html", {"experiment": experiment})
    found = mismatches.find(known.report, query)
    context = {
        "experiment": experiment,
        "m": found,
        "tokens": mismatches.token_window(found),
        "choices": mismatches.alternatives(found),
        **mismatches.WORDS,
    }
    return page(request, "mismatch.html", context)


@router.get("/sessions/{session_id}/log")
async def show_log(request: Request, session_id: UUID, source: Source) -> Response:
    """A server's log as text, without control characters."""
    session = await source.runs.session(session_id)
    return page(request, "log.html", {"session": session, "log": await source.evidence.log(session_id)})


@router.get("/runs/{run_id}")
async def show_run(request: Request, run_id: UUID, source: Source, cursor: RequestId = "") -> Response:
    """One run, request by request."""
    run = await source.runs.run(run_id)
    seen = await source.evidence.observations(run_id, cursor, REQUESTS_SHOWN)
    context = {
        "run": run,
        "cases": cases(seen.items),
        "following": seen.next_cursor,
        "tracks": summaries(await source.evidence.timeline(run_id)),
    }
    return page(request, "run.html", context)


class HashedFiles(StaticFiles):
    """Static files; those whose address carries a version or hash may be kept for good."""

    async def get_response(self, path: str, scope: Asked) -> Response:
        response = await super().get_response(path, scope)
        if path.startswith("vendor/") or b"v=" in scope.get("query_string", b""):
            response.headers["Cache-Control"] = FOREVER
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def mount_static(app: FastAPI) -> None:
    """Serve scripts, styles and vendored files from this host."""
    app.mount("/static", HashedFiles(directory=STATIC), name="static")


async def _live_context(source: Readings, prefix: str) -> dict[str, Any]:
    experiment = await source.experiments.read(prefix)
    manifest = await source.experiments.manifest(experiment.id)
    sessions, runs = await source.runs.sessions(experiment.id), await source.runs.runs(experiment.id)
    known = await source.comparisons.ready(experiment.id) if experiment.blocks_complete else None
    report = known.report if known else None
    axis, groups = compare.verdict_groups(report) if report else (None, [])
    over = is_over(experiment.state)
    lanes = live.schedule_grid(manifest, sessions, runs, over=over)
    return {
        "experiment": experiment,
        "manifest": manifest,
        "report": report,
        "computing": bool(experiment.blocks_complete) and report is None,
        "verdict_axis": axis,
        "verdict_groups": groups,
        "lanes": lanes,
        "marked": live.is_marked(lanes),
        "phases": live.PHASES,
        "over": over,
        "newest": live.newest_runs(manifest, runs),
        "runs_known": any(r.summary is not None for r in runs),
        "failures": failure_groups(sessions, runs, experiment.failures),
        "warned": warned(sessions),
        "shown_of": manifest,
    }


def _absolute(request: Request) -> str:
    """The page's own address, for paper."""
    return str(request.url.replace(query="", fragment=""))


def _address(experiment: ExperimentRead) -> str:
    return f"/experiments/{experiment.id[:12]}"
