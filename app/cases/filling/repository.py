"""Cases out of observations, block by block, by the formulas of ``app.domain.latency`` in SQL.

Postgres does the work beside its own rows; a test holds what it says to what the domain says.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from psycopg.types.json import Jsonb
from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.cases.query import HEAD_BYTES
from app.db.case_models import CaseIndexRow
from app.db.models import ExperimentRow
from app.db.partitions import CASES, clear_cases, hold_partitions, partition_name, stem_of
from app.db.session import driver
from app.domain.condition import Condition, expand
from app.domain.lifecycle import RunState
from app.domain.vocabulary import BASELINE_ARM, Outcome
from app.evidence.repository import CommittedBlock, EvidenceRepository, RunRecord

VERSION: Final = 1
"""Grows with every change of what a case says; older ones are then made anew."""
A_BLOCK: Final = 1 << 40
"""Numbers of one block's cases."""
A_RUN: Final = 1 << 26
JOIN: Final = "\x1f"

Labels = Mapping[str, Sequence[str]]
"""Request id → ``dimension=label``."""


def _since(start: str, end: str) -> str:
    """An interval; nothing where it would be negative: that is a wrong recording, which the report refuses."""
    return f"CASE WHEN {end} >= {start} THEN {end} - {start} END"


def _last(row: str) -> str:
    return f"{row}.chunk_ns[cardinality({row}.chunk_ns)]"


def _tokens(row: str) -> str:
    return f"coalesce({row}.completion_tokens, cardinality({row}.token_ids))"


def _e2e(row: str) -> str:
    took = _since(f"{row}.due_ns", f"coalesce({_last(row)}, {row}.end_ns)")
    return f"CASE WHEN {row}.outcome = 'success' THEN {took} END"


_TPOT: Final = f"""
    CASE WHEN {_tokens("o")} > 1 AND cardinality(o.chunk_ns) > 0
    THEN ({_since("o.chunk_ns[1]", _last("o"))})::float8 / ({_tokens("o")} - 1) END"""
_DIFFERS: Final = """
    CASE WHEN o.outcome = 'success' AND t.outcome = 'success' THEN
        CASE WHEN cardinality(o.token_ids) > 0 AND cardinality(t.token_ids) > 0 THEN o.token_ids <> t.token_ids
        ELSE (o.text, o.reasoning, o.tool_calls) <> (t.text, t.reasoning, t.tool_calls) END END"""
_COLUMNS: Final[Mapping[str, str]] = {
    "stem": "%(stem)s",
    "number": "%(first)s + row_number() OVER (ORDER BY o.due_ns, o.request_id) - 1",
    "lateness_ns": _since("o.due_ns", "o.sent_ns"),
    "ttft_ns": _since("o.due_ns", "o.chunk_ns[1]"),
    "tpot_ns": _TPOT,
    "e2e_ns": _e2e("o"),
    "ratio": f"({_e2e('o')})::float8 / nullif({_e2e('t')}, 0)",
    "acceptance": "o.num_accepted_draft_tokens::float8 / nullif(o.num_draft_tokens, 0)",
    "score": "s.score",
    "output_tokens": _tokens("o"),
    "prompt_tokens": "o.prompt_tokens",
    "run_id": "%(run)s",
    "condition": "%(condition)s",
    "block": "%(block)s",
    "attempt": "%(attempt)s",
    "outcome": "array_position(%(outcomes)s::text[], o.outcome::text) - 1",
    "counted": "%(counted)s",
    "differs": _DIFFERS,
    "request_id": "o.request_id",
    "strata": f"coalesce(string_to_array(nullif(l.labels, ''), E'\\x{ord(JOIN):02x}'), '{{}}')",
    "head": f"substring(o.text for {HEAD_BYTES})",
}
_FILL: Final = f"""
    INSERT INTO {CASES} ({", ".join(_COLUMNS)}) SELECT {", ".join(_COLUMNS.values())}
    FROM observation o
    LEFT JOIN observation t
        ON t.experiment = %(experiment)s AND t.run_id = %(target)s AND t.request_id = o.request_id
    LEFT JOIN unnest(%(ids)s::text[], %(labels)s::text[]) AS l(id, labels) ON l.id = o.request_id
    LEFT JOIN unnest(%(scored)s::text[], %(scores)s::float8[]) AS s(id, score) ON s.id = o.request_id
    WHERE o.experiment = %(experiment)s AND o.run_id = %(run)s
""".encode()  # noqa: S608  (our own names)


class CaseFilling:
    """Fills, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def missing(self, experiment: str) -> tuple[CommittedBlock, ...]:
        """Complete blocks without cases, by index."""
        there = await self._there(experiment)
        return tuple(b for b in await EvidenceRepository(self._session).committed(experiment) if b not in there)

    async def begin(self, experiment: str) -> bool:
        """Hold the experiment's cases, with room for them; ``False`` where it is gone."""
        await hold_partitions(self._session, experiment)
        known = select(ExperimentRow.digest).where(ExperimentRow.digest == experiment)
        if await self._session.scalar(known.with_for_update(read=True, key_share=True)) is None:
            return False
        table = select(func.to_regclass(partition_name(CASES, experiment)))
        if await self._session.scalar(table) is None or not await self._there(experiment):
            await self._session.execute(delete(CaseIndexRow).where(CaseIndexRow.experiment == experiment))
            await clear_cases(self._session, experiment)
        return True

    async def fill(
        self, experiment: str, block: CommittedBlock, runs: Sequence[RunRecord], labels: Mapping[str, Labels]
    ) -> None:
        """The cases of one block; ``runs`` are its own."""
        conditions = await self._conditions(experiment)
        targets = {_asked(r): r.id for r in runs if r.evidence.arm == BASELINE_ARM and _counts(r)}
        counts: dict[str, list[int]] = {}
        connection = await driver(self._session)
        for place, run in enumerate(runs):
            number = conditions.get(Condition(run.evidence.arm, run.evidence.workload, run.evidence.load))
            if number is None:
                continue
            is_target = run.evidence.arm == BASELINE_ARM
            values = _values(run, labels.get(run.evidence.workload, {}))
            values |= {"experiment": experiment, "stem": stem_of(experiment), "condition": number}
            values |= {"first": block.block * A_BLOCK + place * A_RUN, "block": block.block}
            values["target"] = None if is_target else targets.get(_asked(run))
            written = await connection.execute(_FILL, values)
            mine = counts.setdefault(str(number), [0, 0])
            mine[0 if _counts(run) else 1] += written.rowcount
        row = {"e": experiment, "b": block.block, "f": block.fence, "v": VERSION, "c": Jsonb(counts)}
        await connection.execute(
            b"INSERT INTO case_index (experiment, block, fence, version, cases)"
            b" VALUES (%(e)s, %(b)s, %(f)s, %(v)s, %(c)s)",
            row,
        )

    async def analyze(self, experiment: str) -> None:
        """So that Postgres knows which filters find little."""
        await self._session.execute(text(f"ANALYZE {partition_name(CASES, experiment)}"))

    async def _there(self, experiment: str) -> set[CommittedBlock]:
        query = select(CaseIndexRow.block, CaseIndexRow.fence)
        of_it = query.where(CaseIndexRow.experiment == experiment, CaseIndexRow.version == VERSION)
        return {CommittedBlock(block, fence) for block, fence in (await self._session.execute(of_it)).all()}

    async def _conditions(self, experiment: str) -> dict[Condition, int]:
        manifest = await EvidenceRepository(self._session).manifest(experiment)
        return {condition: number for number, condition in enumerate(expand(manifest))}


def _counts(run: RunRecord) -> bool:
    return run.evidence.state is RunState.SUCCEEDED


def _asked(run: RunRecord) -> tuple[str, str]:
    return run.evidence.workload, run.evidence.load


def _values(run: RunRecord, labels: Labels) -> dict[str, Any]:
    """Parameters of one run."""
    scores = run.evidence.scores
    return {
        "run": run.id,
        "attempt": run.evidence.attempt,
        "counted": _counts(run),
        "outcomes": [str(outcome.value) for outcome in Outcome],
        "ids": [*labels],
        "labels": [JOIN.join(of) for of in labels.values()],
        "scored": [*scores],
        "scores": [*scores.values()],
    }


def labels_by_id(requests: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, tuple[str, ...]]:
    """What strata are written as, in a fixed order."""
    return {name: tuple(f"{d}={label}" for d, label in sorted(strata.items())) for name, strata in requests}
