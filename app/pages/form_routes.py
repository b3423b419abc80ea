"""The form's routes: show it, look at what is typed, submit it. What is wrong comes back beside its input."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import DomainError, FieldProblem
from app.domain.layout import as_written
from app.domain.manifest import parse_manifest
from app.experiments.schemas import ExperimentRead
from app.intake import decode_yaml
from app.pages import guard
from app.pages.form import FormState, empty_form, input_names, read_form, with_checks, with_problems
from app.pages.form_context import cloned, form_context, fragment, with_drafts
from app.pages.form_looks import Look, look
from app.pages.form_manifest import Merged, NotShown, as_pasted, merged, shown, written
from app.pages.offer import Offer
from app.pages.page_route import PageRoute, Source
from app.pages.views import page

MANIFEST_BYTES_MAX = 1 << 20
FIELDS_MAX = 2000
NOWHERE = Look(problems=())

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


class Sheet(NamedTuple):
    """Both sides of the page: the form, and the manifest as text."""

    form: FormState
    text: str
    document: Any = None
    """The manifest, decoded; ``None`` where the text is none."""
    merged: Merged | None = None
    problems: tuple[FieldProblem, ...] = ()
    """Why the text is no document at all."""
    unshown: tuple[FieldProblem, ...] = ()
    """Why the form cannot show it."""

    @property
    def pasted(self) -> bool:
        """Whether the text was edited, and not the form."""
        return "manifest" in self.form.values

    def told(self, problems: Sequence[FieldProblem]) -> FormState:
        """The form with these problems, each beside its input."""
        in_form = [self.merged.in_form(p) if self.merged else p for p in problems]
        inputs = ["manifest"] if self.unshown or self.problems else input_names(self.form)
        return with_problems(self.form, in_form, inputs)


@router.get("/experiments/new")
async def new_experiment(
    request: Request, source: Source, clone: Annotated[str, Query(alias="from", max_length=64)] = ""
) -> Response:
    """The form, filled with what workers have published, or with an earlier experiment."""
    offer = await source.offer()
    if not clone:
        document = merged(empty_form(offer), offer).document
        return _page(request, _sheet(document, written(document), offer), offer)
    original = await source.experiments.read(clone)
    document = cloned(await source.experiments.manifest(original.id))
    return _page(request, _sheet(document, written(document), offer), offer, clone=original)


@router.post("/experiments/new", dependencies=[needs(Scope.SUBMIT)])
async def submit_form(request: Request, source: Source) -> Response:
    """Submit the form or the pasted manifest; problems come back beside their inputs."""
    offer = await source.offer()
    sheet = await _posted(request, offer)
    problems = sheet.problems
    try:
        if not problems:
            manifest = parse_manifest(sheet.document)
            with as_written(sheet.document):
                submitted, _ = await source.experiments.register(manifest)
            return RedirectResponse(submitted.links.page, HTTPStatus.SEE_OTHER)
    except DomainError as error:
        problems = error.problems
    return _page(request, sheet, offer, Look(problems), status=HTTPStatus.UNPROCESSABLE_ENTITY)


@router.post("/experiments/new/check")
async def check_form(request: Request, source: Source) -> Response:
    """Check the form or the pasted manifest and register nothing; for browsers without scripts."""
    offer = await source.offer()
    sheet = await _posted(request, offer)
    return _page(request, sheet, offer, await _look(source, sheet))


@router.post("/experiments/new/live")
async def follow_form(request: Request, source: Source) -> Response:
    """The other side of what is being edited, what is wrong with it, what it costs and what it could show."""
    offer = await source.offer()
    sheet = await _posted(request, offer)
    whole = "whole" in sheet.form.values
    if whole and not sheet.pasted and not sheet.problems:  # a draft: what its form was read from is the past's
        sheet = _sheet(sheet.document, sheet.text, offer, {"noise_from": sheet.form.value("noise_from")})
    seen = await _look(source, sheet)
    form = with_checks(sheet.told(seen.problems), _in_form(sheet, seen), input_names(sheet.form))
    context = form_context(form, offer, seen) | {"unshown": sheet.unshown, "base": sheet.text}
    follows = sheet.pasted or whole
    answer = {
        "yaml": None if sheet.pasted else sheet.text,
        "form": fragment("_guided.html", context | {"form": _plain(form)}) if follows and not sheet.unshown else None,
        "look": fragment("_look.html", context),
        "price": fragment("_price.html", context),
        "unshown": fragment("_unshown.html", context),
        "problems": form.problems,
        "beside": [b.model_dump(mode="json") for b in form.beside],
    }
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})


def _plain(form: FormState) -> FormState:
    """Without what the browser puts beside the inputs by itself."""
    return form.model_copy(update={"problems": (), "beside": ()})


def _in_form(sheet: Sheet, seen: Look) -> list[Any]:
    in_form = sheet.merged.in_form if sheet.merged else lambda problem: problem
    return [c.model_copy(update={"field": in_form(FieldProblem(c.field, "", "")).field}) for c in seen.checks]


async def _look(source: Any, sheet: Sheet) -> Look:
    if sheet.problems:
        return Look(sheet.problems)
    return await look(source, sheet.document, sheet.form.value("noise_from"))


async def _posted(request: Request, offer: Offer) -> Sheet:
    """What was typed; raises ``ForeignForm`` unless it comes from a page of this host."""
    async with request.form(max_files=0, max_fields=FIELDS_MAX, max_part_size=MANIFEST_BYTES_MAX) as posted:
        pairs = [(name, value) for name, value in posted.multi_items() if isinstance(value, str)]
    form = read_form(pairs)
    guard.check_form(request, form.value(guard.FIELD))
    return _pasted(form, offer) if "manifest" in form.values else _filled(form, offer)


def _filled(form: FormState, offer: Offer) -> Sheet:
    """The form's side was edited: the text follows it."""
    base = form.value("base")
    try:
        made = merged(form, offer, decode_yaml(base.encode(), "manifest") if base.strip() else None)
    except DomainError as error:
        return Sheet(form, base, problems=error.problems)
    told = shown(made.document)
    form = form.model_copy(update={"kept": told.kept, "strangers": told.strangers})
    return Sheet(form, written(made.document), made.document, made)


def _pasted(form: FormState, offer: Offer) -> Sheet:
    """The text was edited: the form follows it, where it can."""
    text = form.value("manifest")
    try:
        document = decode_yaml(text.encode(), "manifest")
    except DomainError as error:
        return Sheet(form, text, problems=error.problems, unshown=error.problems)
    return _sheet(document, text, offer, {k: form.value(k) for k in ("manifest", "noise_from")})


def _sheet(document: Any, text: str, offer: Offer, values: dict[str, str] | None = None) -> Sheet:
    try:
        told = shown(document)
    except NotShown as error:
        return Sheet(FormState(values=values or {}, chosen={}), text, document, unshown=error.problems)
    told = told.model_copy(update={"values": told.values | (values or {})})
    return Sheet(with_drafts(told, offer), text, document, as_pasted(document))


def _page(
    request: Request,
    sheet: Sheet,
    offer: Offer,
    seen: Look = NOWHERE,
    clone: ExperimentRead | None = None,
    *,
    status: int = HTTPStatus.OK,
) -> Response:
    form = with_checks(sheet.told(seen.problems), _in_form(sheet, seen), input_names(sheet.form))
    base = sheet.text if sheet.pasted or "base" not in form.values else form.value("base")
    context = form_context(form, offer, seen) | {
        "text": sheet.text,
        "base": base,
        "unshown": sheet.unshown,
        "pasted": sheet.pasted,
        "clone": clone,
        "submitted": status != HTTPStatus.OK,
    }
    return page(request, "new.html", context, status=status)
