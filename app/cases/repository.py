"""Cases in Postgres, found by keyset: how deep a page lies does not matter, and nothing is skipped or shown twice.

Arm, workload and load choose conditions, each of which has an index for each order. Filters that find few are answered
by one pass over narrow rows; those that find many walk the indexes and stop early.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final
from uuid import UUID

from psycopg.rows import namedtuple_row
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.cases.cursor import Place
from app.cases.filling.repository import VERSION
from app.cases.query import Answer, CaseQuery, Scored, Sort, Which
from app.db.case_models import CaseIndexRow
from app.db.partitions import CASES, partition_name
from app.db.session import driver
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.scored import ROUNDING
from app.domain.vocabulary import NS_PER_MS, Outcome
from app.evidence.rows import SELECT_ONE, observation_of

COUNTED_TO: Final = 10_000
"""More matches than these are not counted."""
TEXT_BYTES: Final = 240
OUTCOMES: Final = [*Outcome]
KEYS: Final[Mapping[str, str]] = {
    "e2e": "e2e_ns",
    "ttft": "ttft_ns",
    "tpot": "tpot_ns",
    "late": "lateness_ns",
    "ratio": "ratio",
    "acceptance": "acceptance",
    "tokens": "output_tokens",
    "prompt": "prompt_tokens",
    "request": "request_id",
}
_SHOWN: Final = (
    "number, run_id, condition, block, attempt, counted, request_id, strata, outcome, lateness_ns, ttft_ns, tpot_ns,"
    " e2e_ns, prompt_tokens, output_tokens, acceptance, ratio, differs, score"
)
_TEXTS: Final = (
    f"SELECT run_id, request_id, substring(text for {TEXT_BYTES}) FROM observation"  # noqa: S608  (our own names)
    " WHERE experiment = %s AND (run_id, request_id) IN (SELECT * FROM unnest(%s::uuid[], %s::text[]))"
).encode()

_ANY_CONDITION: Final = "condition = ANY(%(conditions)s::int2[])"

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Total:
    """How many match; ``numbers`` are theirs where there are few."""

    count: int
    is_bound: bool
    numbers: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A query against one experiment."""

    experiment: str
    query: CaseQuery
    conditions: Sequence[int]
    thresholds: Sequence[float | None]
    """By condition: from which score on an answer is correct."""


class CaseRepository:
    """Reads, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def total(self, asked: Asked) -> Total:
        """Exact where it is known or small, otherwise a bound."""
        if not await self._indexed(asked.experiment):
            return Total(0, is_bound=False, numbers=[])
        if not asked.query.narrows:
            return Total(await self._sum(asked), is_bound=False)
        statement = f"SELECT number FROM {_place_of(asked)} WHERE {_where(asked)} LIMIT {COUNTED_TO + 1}"  # noqa: S608
        rows = await self._rows(statement, _values(asked))
        if len(rows) > COUNTED_TO:
            return Total(COUNTED_TO, is_bound=True)
        return Total(len(rows), is_bound=False, numbers=[row.number for row in rows])

    async def page(self, asked: Asked, numbers: list[int] | None, place: Place | None, limit: int) -> list[Any]:
        """The cases after ``place``: those with the sorted value first, then those without."""
        found: list[Any] = []
        if numbers == []:
            return found
        if place is None or place.key is not None:
            found = await self._walk(asked, numbers, place, limit, absent=False)
            place = None
        if len(found) < limit:
            found += await self._walk(asked, numbers, place, limit - len(found), absent=True)
        return found

    async def texts(self, experiment: str, rows: Sequence[Any]) -> dict[tuple[UUID, str], str]:
        """How the answers of these cases begin."""
        runs, requests = [row.run_id for row in rows], [row.request_id for row in rows]
        async with (await driver(self._session)).cursor(binary=True) as cursor:
            await cursor.execute(_TEXTS, (experiment, runs, requests))
            found = await cursor.fetchall()
        return {(run, request): bytes(head).decode("utf-8", "ignore") for run, request, head in found}

    async def seen(self, experiment: str, runs: Sequence[UUID], request_id: str) -> dict[UUID, RequestObservation]:
        """What was seen of one request in these runs."""
        async with (await driver(self._session)).cursor(binary=True) as cursor:
            await cursor.execute(SELECT_ONE, (experiment, list(runs), request_id))
            return {row[0]: observation_of(row[1:]) for row in await cursor.fetchall()}

    async def blocks(self, experiment: str) -> int:
        """How many blocks' cases are there."""
        return len(await self._indexed(experiment))

    async def _walk(
        self, asked: Asked, numbers: list[int] | None, place: Place | None, limit: int, *, absent: bool
    ) -> list[Any]:
        sort = asked.query.sort
        order = _order(sort, absent=absent)
        where = f"{_where(asked)} AND {_after(sort, place, absent=absent)}"
        values = _values(asked) | {"limit": limit, "numbers": numbers}
        values |= {"key": place.key if place else None, "number": place.number if place else None}
        inner = f"SELECT {_SHOWN} FROM {_place_of(asked)} WHERE {where}"  # noqa: S608  (names that are listed above)
        if numbers is not None:
            return await self._rows(f"{inner} AND number = ANY(%(numbers)s) {order} LIMIT %(limit)s", values)
        each = inner.replace(_ANY_CONDITION, "condition = asked.condition")
        statement = (
            "SELECT found.* FROM unnest(%(conditions)s::int2[]) AS asked(condition)"  # noqa: S608
            f" CROSS JOIN LATERAL ({each} {order} LIMIT %(limit)s) AS found {order} LIMIT %(limit)s"
        )
        return await self._rows(statement, values)

    async def _rows(self, statement: str, values: Values) -> list[Any]:
        connection = await driver(self._session)
        async with connection.cursor(row_factory=namedtuple_row, binary=True) as cursor:
            await cursor.execute(statement.encode(), values)
            return await cursor.fetchall()

    async def _sum(self, asked: Asked) -> int:
        """Of whole conditions and blocks: they were counted when they were filled."""
        block, which = asked.query.block, asked.query.runs
        parts = {Which.COUNTED: (0,), Which.LEFT_OUT: (1,), Which.ANY: (0, 1)}[which]
        return sum(
            int(counts[part])
            for index, cases in await self._indexed(asked.experiment)
            if block is None or index == block - 1
            for condition in asked.conditions
            if (counts := cases.get(str(condition)))
            for part in parts
        )

    async def _indexed(self, experiment: str) -> Sequence[Any]:
        query = select(CaseIndexRow.block, CaseIndexRow.cases)
        of_it = query.where(CaseIndexRow.experiment == experiment, CaseIndexRow.version == VERSION)
        return (await self._session.execute(of_it)).all()


def thresholds(manifest: Manifest, workloads: Sequence[str]) -> list[float | None]:
    """From which score on an answer is correct, for the workload of each condition."""
    declared = {w.name: None if w.quality is None else w.quality.correct_from - ROUNDING for w in manifest.workloads}
    return [declared[workload] for workload in workloads]


def _place_of(asked: Asked) -> str:
    """The experiment's own partition, by name: that its rows are of it need not be asked of each."""
    return partition_name(CASES, asked.experiment)


def _where(asked: Asked) -> str:
    return " AND ".join(_filters(asked.query))


def _filters(query: CaseQuery) -> Iterator[str]:
    """In SQL; values stay parameters."""
    yield _ANY_CONDITION
    chosen = {
        "block = %(block)s": query.block is not None,
        "counted": query.runs is Which.COUNTED,
        "NOT counted": query.runs is Which.LEFT_OUT,
        "outcome = %(outcome)s": query.outcome is not None,
        "differs": query.answer is Answer.DIFFERS,
        "NOT differs": query.answer is Answer.SAME,
        "score >= (%(thresholds)s::float8[])[condition + 1]": query.score is Scored.CORRECT,
        "score < (%(thresholds)s::float8[])[condition + 1]": query.score is Scored.WRONG,
        "score IS NULL": query.score is Scored.UNSCORED,
        "%(stratum)s = ANY(strata)": query.stratum is not None,
        "request_id ^@ %(request)s": query.request is not None,
        "head >= %(text)s AND head < %(beyond)s": query.text is not None,
        "e2e_ns >= %(e2e_min)s": query.e2e_min is not None,
        "ttft_ns >= %(ttft_min)s": query.ttft_min is not None,
        "tpot_ns >= %(tpot_min)s": query.tpot_min is not None,
        "lateness_ns >= %(late_min)s": query.late_min is not None,
        "ratio >= %(ratio_min)s": query.ratio_min is not None,
        "output_tokens >= %(tokens_min)s": query.tokens_min is not None,
        "output_tokens <= %(tokens_max)s": query.tokens_max is not None,
        "prompt_tokens >= %(prompt_min)s": query.prompt_min is not None,
        "prompt_tokens <= %(prompt_max)s": query.prompt_max is not None,
    }
    yield from (condition for condition, is_asked in chosen.items() if is_asked)


def _values(asked: Asked) -> Values:
    query = asked.query
    head = (query.text or "").encode()
    in_ns = {name: getattr(query, name) for name in ("e2e_min", "ttft_min", "late_min")}
    return {
        **query.model_dump(mode="json"),
        # A whole number, as the columns are: beside a fraction no index of theirs would serve.
        **{name: None if value is None else ceil(value * NS_PER_MS) for name, value in in_ns.items()},
        "tpot_min": None if query.tpot_min is None else query.tpot_min * NS_PER_MS,
        "conditions": list(asked.conditions),
        "thresholds": list(asked.thresholds),
        "block": None if query.block is None else query.block - 1,
        "outcome": None if query.outcome is None else OUTCOMES.index(query.outcome),
        "text": head,
        "beyond": head + b"\xff",
    }


def _order(sort: Sort, *, absent: bool) -> str:
    if absent:
        return "ORDER BY number"
    direction = "DESC" if sort.down else "ASC"
    return f"ORDER BY {KEYS[sort.column]} {direction}, number {direction}"


def _after(sort: Sort, place: Place | None, *, absent: bool) -> str:
    key = KEYS[sort.column]
    if absent:
        return f"{key} IS NULL" + (" AND number > %(number)s" if place else "")
    beyond = f"({key}, number) {'<' if sort.down else '>'} (%(key)s, %(number)s)"
    return f"{key} IS NOT NULL" + (f" AND {beyond}" if place else "")
