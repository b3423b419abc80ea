"""The page of several experiments side by side, and of choosing them."""

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.across.routes import ServiceDep
from app.across.schemas import AT_LEAST, AT_MOST, Across, Cell, Reference
from app.experiments.listing.search import Search
from app.pages.forest import Axis, Strip, axis_for
from app.pages.page_route import PageRoute, Source
from app.pages.views import page

OFFERED: Final = 50
MARGIN: Final = 0.05
"""Of the axis, where experiments have margins of their own."""

router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse, include_in_schema=False)


def _without_empty(value: Any) -> Any:
    """A form sends a field that was left empty, too."""
    return [one.strip() for one in value if one.strip()] if isinstance(value, list) else value


class AcrossQuery(BaseModel):
    """Which experiments; the order is the order of the columns."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: Annotated[list[Reference], BeforeValidator(_without_empty), Field(max_length=AT_MOST)] = []

    def address(self) -> str:
        """The canonical address: the first digits of each."""
        return f"/compare?{urlencode([('of', reference[:12]) for reference in self.of])}"

    def without(self, experiment: str) -> str:
        """The address of the others."""
        left = [reference for reference in self.of if not experiment.startswith(reference)]
        return self.model_copy(update={"of": left}).address()


@router.get("/compare")
async def show_across(
    request: Request, query: Annotated[AcrossQuery, Query()], source: Source, across: ServiceDep
) -> Response:
    """What differs between experiments, and what each says by itself."""
    if len(query.of) < AT_LEAST:
        chosen = [await source.experiments.read(reference) for reference in query.of]
        listed = (await source.experiments.page(Search(), OFFERED)).items
        return page(request, "across_choice.html", {"chosen": chosen, "listed": listed, "most": AT_MOST})
    found = await across.ready(query.of)
    if not isinstance(found, Across):
        return page(request, "computing.html", {"experiment": found[0]})
    axis, strips = _drawn(found)
    return page(request, "across.html", {"across": found, "axis": axis, "strips": strips, "query": query})


def _drawn(across: Across) -> tuple[Axis, list[list[Strip]]]:
    """One axis for all; the place of each cell on it."""
    cells = [cell for row in across.conditions for cell in row.cells if cell is not None]
    axis = axis_for((cell.ratio for cell in cells), MARGIN)
    return axis, [[_strip(axis, cell) for cell in row.cells] for row in across.conditions]


def _strip(axis: Axis, cell: Cell | None) -> Strip:
    return Strip() if cell is None else axis.strip(cell.ratio, cell.simultaneous_low, cell.simultaneous_high)
