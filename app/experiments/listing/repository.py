"""The list of experiments in SQL: what is asked for, in order, a page at a time, however many there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, cast, exists, func, literal, or_, select, tuple_
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, ExperimentRow, ReportRow
from app.domain.errors import NotFound
from app.domain.lifecycle import EXPERIMENT_MOVES, BlockState, ExperimentState, is_terminal
from app.domain.report import ANALYSIS_VERSION
from app.experiments.listing.search import Archived, Order, Search
from app.experiments.progress import COMMITTED

OFFERED_MAX: Final = 200
"""Owners or tags that a form offers to choose from."""
_OVER: Final = tuple(state for state in ExperimentState if is_terminal(EXPERIMENT_MOVES, state))
_SEARCHED: Final = (
    '$.arms[*].speculation.method ? (@ != "target_only")',
    "$.arms[*].draft_or_speculator",
    "$.target_model",
)

_NOT_YET: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""When what is not over ends, as far as the order is concerned."""


class Place(NamedTuple):
    """A page of digests in order, and whether there are more on either side of it."""

    digests: Sequence[str]
    earlier: bool
    later: bool


class ListingRepository:
    """Reads inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def page(self, search: Search, limit: int) -> Place:
        """At most ``limit`` digests; raises ``NotFound`` for a cursor that points to nothing."""
        backwards = search.before is not None
        anchor = search.before or search.cursor
        key, falling = _key(search.sort)
        falling ^= backwards
        place = (key, ExperimentRow.digest)
        query = _asked(select(ExperimentRow.digest), search)
        query = query.order_by(*(column.desc() if falling else column.asc() for column in place)).limit(limit + 1)
        if anchor is not None:
            last = (await self._session.execute(select(*place).where(ExperimentRow.digest == anchor))).one_or_none()
            if last is None:
                raise NotFound.of("cursor", "it points to no experiment", "start again without a cursor")
            here, there = tuple_(*place), tuple_(literal(last[0], key.type), literal(last[1]))
            query = query.where(here < there if falling else here > there)
        found = (await self._session.scalars(query)).all()
        more, kept = len(found) > limit, found[:limit]
        if backwards:
            return Place(kept[::-1], earlier=more, later=True)
        return Place(kept, earlier=anchor is not None, later=more)

    async def count(self, search: Search) -> int:
        """How many are asked for."""
        return int(await self._session.scalar(_asked(select(func.count()), search)) or 0)

    async def owners(self) -> Sequence[str]:
        """Every owner, as far as a form can offer them."""
        query = select(ExperimentRow.owner).distinct().order_by(ExperimentRow.owner).limit(OFFERED_MAX)
        return (await self._session.scalars(query)).all()

    async def tags(self) -> Sequence[str]:
        """Every tag, as far as a form can offer them."""
        tag = func.unnest(ExperimentRow.tags).label("tag")
        return (await self._session.scalars(select(tag).distinct().order_by(tag).limit(OFFERED_MAX))).all()

    async def unweighed(self, search: Search, limit: int | None = None) -> Sequence[str]:
        """Those asked for, whatever their verdicts, that are over and whose verdicts are not known yet."""
        query = _asked(select(ExperimentRow.digest), search.model_copy(update={"word": None}))
        query = query.where(ExperimentRow.state.in_(_OVER), _has_blocks(), ~exists(_glance()))
        return (await self._session.scalars(query.order_by(ExperimentRow.created_at.desc()).limit(limit))).all()


def _key(order: Order) -> tuple[ColumnElement[Any], bool]:
    """What is ordered by, and whether the largest comes first; the digest decides between equals."""
    match order:
        case Order.NEWEST | Order.OLDEST:
            return ExperimentRow.created_at.expression, order is Order.NEWEST
        case Order.NAME:
            return ExperimentRow.name.expression, False
        case Order.ENDED:
            return func.coalesce(ExperimentRow.finished_at, _NOT_YET), True


def _asked(query: Select[Any], search: Search) -> Select[Any]:
    query = query.select_from(ExperimentRow)
    for word in search.q.split():
        query = query.where(_has(word))
    if search.archived is not Archived.SHOWN:
        query = query.where(ExperimentRow.archived.is_(search.archived is Archived.ONLY))
    if search.state is not None:
        query = query.where(ExperimentRow.state == search.state)
    if search.owner is not None:
        query = query.where(ExperimentRow.owner == search.owner)
    if search.tag is not None:
        query = query.where(ExperimentRow.tags.contains([search.tag]))
    if search.word is not None:
        of_word = ReportRow.glance.contains(cast({"words": [{"word": str(search.word)}]}, JSONB))
        query = query.where(ExperimentRow.state.in_(_OVER), exists(_glance().where(of_word)))
    return query


def _has(word: str) -> ColumnElement[bool]:
    """Whether what names an experiment holds ``word``; a digest only from its start."""
    named = (func.jsonb_path_query_array(ExperimentRow.manifest, cast(path, JSONPATH)) for path in _SEARCHED)
    texts = (ExperimentRow.name, ExperimentRow.owner, func.array_to_string(ExperimentRow.tags, " "))
    return or_(
        ExperimentRow.digest.startswith(word.lower(), autoescape=True),
        *(text.icontains(word, autoescape=True) for text in texts),
        *(cast(found, Text).icontains(word, autoescape=True) for found in named),
    )


def _glance() -> Select[str]:
    """The experiment's report, if its verdicts are known, of all its blocks and by this version of the analysis."""
    committed = (
        select(func.count())
        .where(BlockRow.experiment_id == ExperimentRow.digest, BlockRow.state.in_(COMMITTED))
        .correlate(ExperimentRow)
        .scalar_subquery()
    )
    return (
        select(ReportRow.key)
        .where(
            ReportRow.experiment == ExperimentRow.digest,
            ReportRow.glance["analysis"].astext == ANALYSIS_VERSION,
            ReportRow.glance["blocks"].as_integer() == committed,
        )
        .correlate(ExperimentRow)
    )


def _has_blocks() -> ColumnElement[bool]:
    of_it = BlockRow.experiment_id == ExperimentRow.digest, BlockRow.state == BlockState.SUCCEEDED
    return exists(select(BlockRow.id).where(*of_it).correlate(ExperimentRow))
