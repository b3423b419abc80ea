"""The form's routes: show it, check what is typed, submit it. What is wrong comes back beside its input."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import DomainError, FieldProblem
from app.domain.layout import as_written, read_layout
from app.domain.manifest import parse_manifest
from app.domain.preflight import problems_of
from app.intake import decode_yaml
from app.pages import guard
from app.pages.checks import check_groups, tally
from app.pages.form import WITH_DRAFT, FormState, empty_form, input_names, manifest_document, read_form, with_problems
from app.pages.offer import Offer
from app.pages.page_route import PageRoute, Source
from app.pages.ranges import range_of
from app.pages.views import page
from app.preflight.schemas import PreflightRead

MANIFEST_BYTES_MAX = 1 << 20
FIELDS_MAX = 500

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


@router.get("/experiments/new")
async def new_experiment(request: Request, source: Source) -> Response:
    """The form, filled with what workers have published."""
    offer = await source.offer()
    return _form_page(request, empty_form(offer), offer)


@router.post("/experiments/new", dependencies=[needs(Scope.SUBMIT)])
async def submit_form(request: Request, source: Source) -> Response:
    """Submit the form or the pasted manifest; problems come back beside their inputs."""
    state, offer = await _posted(request), await source.offer()
    try:
        document = _document(state, offer)
        manifest = parse_manifest(document)
        with as_written(document):
            submitted, _ = await source.experiments.register(manifest)
    except DomainError as error:
        state = _with_problems(state, error.problems)
        return _form_page(request, state, offer, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return RedirectResponse(submitted.links.page, HTTPStatus.SEE_OTHER)


@router.post("/experiments/new/check")
async def check_form(request: Request, source: Source) -> Response:
    """Check the form or the pasted manifest and register nothing; with htmx only the sheet is exchanged."""
    state, offer = await _posted(request), await source.offer()
    try:
        document = _document(state, offer)
        found = await source.preflights.check(parse_manifest(document))
    except DomainError as error:
        return _form_page(request, _with_problems(state, error.problems), offer)
    problems = read_layout(document).told(problems_of(found.checks))
    return _form_page(request, _with_problems(state, problems), offer, found)


async def _posted(request: Request) -> FormState:
    """What was typed; raises ``ForeignForm`` unless it comes from a page of this host."""
    async with request.form(max_files=0, max_fields=FIELDS_MAX, max_part_size=MANIFEST_BYTES_MAX) as posted:
        pairs = [(name, value) for name, value in posted.multi_items() if isinstance(value, str)]
    state = read_form(pairs)
    guard.check_form(request, state.value(guard.FIELD))
    return state


def _document(state: FormState, offer: Offer) -> Any:
    pasted = state.value("manifest")
    return decode_yaml(pasted.encode(), "manifest") if pasted else manifest_document(state, offer)


def _with_problems(state: FormState, problems: tuple[FieldProblem, ...] | list[FieldProblem]) -> FormState:
    return with_problems(state, problems, ["manifest"] if state.value("manifest") else input_names(state))


def _form_page(
    request: Request,
    state: FormState,
    offer: Offer,
    found: PreflightRead | None = None,
    *,
    status: int = HTTPStatus.OK,
) -> Response:
    context: dict[str, Any] = {"form": state, "offer": offer, "methods_with_draft": WITH_DRAFT, "preflight": found}
    context["range_of"] = range_of
    if found is not None:
        context |= {"groups": check_groups(found.checks), "tally": tally(found.checks)}
    context["methods"] = [(method, method) for method in offer.methods()]
    context["submitted"] = request.url.path == "/experiments/new"
    return page(request, "new.html", context, status=status)
