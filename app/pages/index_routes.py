"""The routes of the list of experiments: search it, tag what is in it, put it away."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import EvidenceRefused, FieldProblem
from app.domain.lifecycle import ExperimentState
from app.domain.vocabulary import VerdictWord
from app.experiments.listing.search import Archived, Order, Search
from app.experiments.schemas import ExperimentRead, Shelving
from app.pages import guard
from app.pages.index import address, by_arm, tag_hint, typed_tags
from app.pages.page_route import PageRoute, Source
from app.pages.readings import Readings
from app.pages.views import is_over, page

SHOWN: Final = 25
WEIGHED_AT_ONCE: Final = 5
"""Reports that a search by verdict may have made; the rest of them are counted on the page."""
ORDERS: Final = {
    Order.NEWEST: "newest first",
    Order.OLDEST: "oldest first",
    Order.NAME: "by name",
    Order.ENDED: "running, then latest end",
}
KEPT: Final = {
    Archived.HIDDEN: "without archived",
    Archived.SHOWN: "with archived",
    Archived.ONLY: "archived only",
}

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


@router.get("/")
async def list_experiments(request: Request, source: Source, search: Annotated[Search, Query()]) -> Response:
    """The experiments that are asked for; the address is the whole search."""
    if search.word is not None:
        await _weigh(source, await source.experiments.unweighed(search, WEIGHED_AT_ONCE))
    listed = await source.experiments.page(search, SHOWN)
    unknown = [e.id for e in listed.items if is_over(e.state) and e.blocks_complete and e.verdicts is None]
    if unknown:
        await _weigh(source, unknown)
        listed = await source.experiments.page(search, SHOWN)
    owners, tags = await source.experiments.offered()
    context = {
        "listed": listed,
        "search": search,
        "expired": await source.comparisons.expired([e.id for e in listed.items if e.verdicts]),
        "by_arm": by_arm,
        "address": lambda **changed: address(search, **changed),
        "owners": [(owner, owner) for owner in owners],
        "tags": [(tag, tag) for tag in tags],
        "states": [(state, state.lower()) for state in ExperimentState],
        "words": [(word, word.lower()) for word in VerdictWord],
        "orders": list(ORDERS.items()),
        "kept": list(KEPT.items()),
        "plain": Search(),
    }
    return page(request, "experiments.html", context)


@router.get("/experiments/{prefix}/shelf")
async def show_shelf(request: Request, prefix: str, source: Source) -> Response:
    """The tags of an experiment, to be changed, and whether it is archived."""
    experiment = await source.experiments.read(prefix)
    return _shelf(request, experiment, " ".join(experiment.tags))


@router.post("/experiments/{prefix}/shelf", dependencies=[needs(Scope.SUBMIT)])
async def change_shelf(request: Request, prefix: str, source: Source) -> Response:
    """Set the tags, or archive it, or take it out again; then back to the experiment."""
    async with request.form(max_files=0, max_fields=5) as posted:
        typed = {name: value for name, value in posted.items() if isinstance(value, str)}
    guard.check_form(request, typed.get(guard.FIELD, ""))
    experiment = await source.experiments.read(prefix)
    try:
        wish = _wish(typed)
    except ValidationError as error:
        problems = [FieldProblem("tags", _told(item), tag_hint()) for item in error.errors()]
        return _shelf(request, experiment, typed.get("tags", ""), problems, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    await source.experiments.shelve(experiment.id, wish)
    return RedirectResponse(f"/experiments/{experiment.id[:12]}", HTTPStatus.SEE_OTHER)


async def _weigh(source: Readings, experiments: Sequence[str]) -> None:
    """Have their reports made; those that take long are there another time.

    One whose evidence is refused has no verdicts, and says why on its own page.
    """

    async def weigh(experiment: str) -> None:
        with suppress(EvidenceRefused):
            await source.comparisons.weigh(experiment, wait=False)

    await asyncio.gather(*map(weigh, experiments))


def _wish(typed: dict[str, str]) -> Shelving:
    if "archived" in typed:
        return Shelving(archived=typed["archived"] == "true")
    return Shelving(tags=typed_tags(typed.get("tags", "")))


def _told(item: object) -> str:
    given = item["input"] if isinstance(item, dict) else ""
    return f"{given[:60]!r} is no tag" if isinstance(given, str) else "there are too many tags"


def _shelf(
    request: Request,
    experiment: ExperimentRead,
    typed: str,
    problems: list[FieldProblem] | None = None,
    *,
    status: int = HTTPStatus.OK,
) -> Response:
    context = {"experiment": experiment, "typed": typed, "problems": problems or [], "hint": tag_hint()}
    return page(request, "shelf.html", context, status=status)
