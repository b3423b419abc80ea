"""Finds cases; where a block has none yet they are taken from its evidence first."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from anyio import to_thread
from sqlalchemy.ext.asyncio import AsyncSession

from app.cases.cursor import Place, place_of
from app.cases.filling.background import Fillings
from app.cases.filling.repository import CaseFilling, Labels, labels_by_id
from app.cases.one import OneCase, SeenCase, line_of
from app.cases.query import CaseQuery
from app.cases.repository import KEYS, OUTCOMES, Asked, CaseRepository, thresholds
from app.cases.schemas import CasePage, CaseRead
from app.db.repository import resolve
from app.db.session import Database
from app.domain.condition import Condition, expand
from app.domain.errors import NotFound
from app.domain.evidence import labels_of
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.evidence.packing import unpack_lines
from app.evidence.repository import EvidenceRepository, RunRecord
from app.settings import Settings

CSV_ROWS_MAX: Final = 100_000
CSV_PAGE: Final = 2000


@dataclass(frozen=True, slots=True)
class _Scene:
    """What every reading of an experiment's cases needs."""

    experiment: str
    manifest: Manifest
    conditions: tuple[Condition, ...]
    thresholds: Sequence[float | None]


class CaseService:
    """One per request; fillings are shared."""

    def __init__(self, database: Database, fillings: Fillings, settings: Settings) -> None:
        self._database = database
        self._fillings = fillings
        self._settings = settings

    async def page(self, reference: str, query: CaseQuery, limit: int) -> CasePage:
        """Raises ``NotFound`` for an experiment, a part of it or a cursor that is not there."""
        await self._fill(reference)
        async with self._database.reader() as session:
            scene = await _scene(session, reference)
            asked = _asked(scene, query)
            cases = CaseRepository(session)
            total = await cases.total(asked)
            found = await cases.page(asked, total.numbers, _place(query), limit + 1)
            shown = found[:limit]
            items = await _read(cases, scene, shown)
            complete = await EvidenceRepository(session).committed(scene.experiment)
            return CasePage(
                items=items,
                next_cursor=_cursor(query, shown[-1]) if len(found) > limit else None,
                total=total.count,
                total_is_bound=total.is_bound,
                blocks=await cases.blocks(scene.experiment),
                blocks_complete=len(complete),
            )

    async def rows(self, reference: str, query: CaseQuery) -> AsyncGenerator[list[CaseRead]]:
        """All that match, from the query's place on, in portions: at most ``CSV_ROWS_MAX``."""
        await self._fill(reference)
        async with self._database.reader() as session:
            scene = await _scene(session, reference)
            cases, left = CaseRepository(session), CSV_ROWS_MAX
            numbers = (await cases.total(_asked(scene, query))).numbers
            while left:
                found = await cases.page(_asked(scene, query), numbers, _place(query), min(CSV_PAGE, left))
                if not found:
                    return
                yield await _read(cases, scene, found)
                left -= len(found)
                query = query.model_copy(update={"after": _cursor(query, found[-1])})

    async def one(self, reference: str, workload: str, request_id: str) -> OneCase:
        """A request under every arm; raises ``NotFound``."""
        async with self._database.reader() as session:
            scene = await _scene(session, reference)
            trace = next((w.trace for w in scene.manifest.workloads if w.name == workload), None)
            if trace is None:
                have = ", ".join(w.name for w in scene.manifest.workloads)
                raise NotFound.of("workload", f"{workload} is not in this experiment", f"choose one of {have}")
            evidence = EvidenceRepository(session)
            stored = await evidence.open_trace(trace)
            request = await to_thread.run_sync(lambda: line_of(request_id, unpack_lines(stored.body)))
            if request is None:
                raise NotFound.of("request_id", f"{workload} has no request {request_id}", "look among the cases")
            records = [r for r in await evidence.run_records(scene.experiment) if _of(r) == (workload, request.load)]
            seen = await CaseRepository(session).seen(scene.experiment, [r.id for r in records], request_id)
        limit = dict(zip((c.workload for c in scene.conditions), scene.thresholds, strict=True))[workload]
        answers = [_answer(record, seen[record.id], limit) for record in records if record.id in seen]
        order = [arm.name for arm in scene.manifest.arms]
        answers.sort(key=lambda a: (a.block, order.index(a.arm), a.attempt))
        scorer = next((r.evidence.scorer for r in records if r.evidence.scorer), None)
        return OneCase(workload, request, tuple(answers), scorer)

    async def _fill(self, reference: str) -> None:
        """Begin to take what is missing, and wait for it as long as a page does."""
        async with self._database.reader() as session:
            experiment = await resolve(session, reference)
            missing = await CaseFilling(session).missing(experiment)
        if missing:
            fill = partial(self._filled, experiment)
            await self._fillings.within(experiment, self._settings.page_patience_s, fill)

    async def _filled(self, experiment: str) -> None:
        """A transaction for each block, so that what is there can be read meanwhile."""
        async with self._database.reader() as session:
            evidence = EvidenceRepository(session)
            manifest = await evidence.manifest(experiment)
            traces = {w.name: await evidence.open_trace(w.trace) for w in manifest.workloads}
            records = sorted(await evidence.run_records(experiment), key=_block)
            missing = await CaseFilling(session).missing(experiment)
        runs = {block: list(group) for block, group in groupby(records, key=_block)}
        labels: dict[str, Labels] = {}
        for name, trace in traces.items():
            found = await to_thread.run_sync(labels_of, trace)
            labels[name] = labels_by_id((label.request_id, label.strata) for label in found)
        for block in missing:
            async with self._database.transaction() as session:
                filling = CaseFilling(session)
                if not await filling.begin(experiment):
                    return
                if block in await filling.missing(experiment):
                    await filling.fill(experiment, block, runs.get(block.block, []), labels)
                    await filling.analyze(experiment)


def _of(record: RunRecord) -> tuple[str, str]:
    return record.evidence.workload, record.evidence.load


def _answer(record: RunRecord, seen: RequestObservation, threshold: float | None) -> SeenCase:
    run, score = record.evidence, record.evidence.scores.get(seen.request_id)
    correct = None if score is None or threshold is None else score >= threshold
    counted = run.state is RunState.SUCCEEDED
    return SeenCase(run.block, run.arm, run.attempt, counted, record.id, seen=seen, score=score, correct=correct)


def _block(record: RunRecord) -> int:
    return record.evidence.block


async def _scene(session: AsyncSession, reference: str) -> _Scene:
    experiment = await resolve(session, reference)
    manifest = await EvidenceRepository(session).manifest(experiment)
    conditions = expand(manifest)
    return _Scene(experiment, manifest, conditions, thresholds(manifest, [c.workload for c in conditions]))


def _asked(scene: _Scene, query: CaseQuery) -> Asked:
    return Asked(scene.experiment, query, [*query.conditions(scene.manifest)], scene.thresholds)


def _place(query: CaseQuery) -> Place | None:
    return None if query.after is None else place_of(query.after, is_text=query.sort.column == "request")


def _cursor(query: CaseQuery, row: Any) -> str:
    return Place(getattr(row, KEYS[query.sort.column]), row.number).written()


async def _read(cases: CaseRepository, scene: _Scene, rows: Sequence[Any]) -> list[CaseRead]:
    texts = await cases.texts(scene.experiment, rows)
    return [_case(scene, row, texts.get((row.run_id, row.request_id), "")) for row in rows]


def _case(scene: _Scene, row: Any, text: str) -> CaseRead:
    condition, threshold = scene.conditions[row.condition], scene.thresholds[row.condition]
    own = {name: getattr(row, name) for name in CaseRead.model_fields if name in row._fields}
    own |= {"block": row.block + 1, "outcome": OUTCOMES[row.outcome], "text": text}
    own |= {"arm": condition.arm, "workload": condition.workload, "load": condition.load}
    own["correct"] = None if row.score is None or threshold is None else row.score >= threshold
    return CaseRead.model_validate(own)
