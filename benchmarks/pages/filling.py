"""A store for pages to be looked at: one large experiment, one with its report at hand, and one that is running."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from alembic import command

from app import embedded
from app.db.session import Database
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.run_summary import summarise
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import LeaseRepository
from app.runs.repository import SessionRepository
from benchmarks.evidence.making import BLOCKS, LOADS, RUNS_AN_EXPERIMENT, TOKENS, Key, MadeRun, make_runs
from tests.browser.story import Story, tell
from tests.conftest import alembic_config, libpq_url
from tests.factories import make_manifest, make_trace
from tests.factories_leases import claim_block

MADE: Final = 200
"""Observations of a run that are made one by one; the others are these again, under other ids and moved in time."""
_AGAIN: Final = """
    INSERT INTO observation ({columns}) SELECT {values}
    FROM generate_series(1, %(times)s) AS copy(n)
    CROSS JOIN LATERAL (SELECT %(span)s::bigint * copy.n AS by) AS later
    JOIN (
        SELECT o.*, substring(o.request_id from '[0-9]+$')::bigint AS index FROM observation o
        WHERE o.experiment = %(experiment)s AND o.run_id = %(run)s
    ) AS o ON o.index + copy.n * {made} < %(requests)s
"""
_MOVED: Final = {
    "request_id": "regexp_replace(o.request_id, '[0-9]+$', (o.index + copy.n * {made})::text)",
    "due_ns": "o.due_ns + later.by",
    "sent_ns": "o.sent_ns + later.by",
    "first_byte_ns": "o.first_byte_ns + later.by",
    "end_ns": "o.end_ns + later.by + 9000000",
    "chunk_ns": "ARRAY(SELECT c + later.by + r.late FROM unnest(o.chunk_ns) AS c,"
    " (SELECT floor(random() * 9e6)::bigint) AS r(late))",
    "outcome": "CASE WHEN random() < 0.002 THEN 'stream_error' ELSE o.outcome END",
}


@dataclass(frozen=True, slots=True)
class Filled:
    """What there is to look at."""

    url: str
    large: str
    small: str
    running: str
    observations: int


async def fill(home: Path, observations: int, others: int) -> Filled:
    """Start a Postgres in ``home`` and fill it."""
    url = await asyncio.to_thread(embedded.start_postgres, home)
    await asyncio.to_thread(command.upgrade, alembic_config(url), "head")
    database = Database(url)
    try:
        large = await _large(database, url, max(observations // RUNS_AN_EXPERIMENT, MADE))
        small = await tell(database, Story(blocks=5, name="small"), home / "artifacts")
        for number in range(others):
            await tell(database, Story(blocks=1, planned=1, requests=4, name=f"other-{number}"), home / "artifacts")
        running = await tell(database, Story(blocks=1, stop=5, name="running"), home / "artifacts")
    finally:
        await database.dispose()
    counted = _counted(url, large.digest)
    return Filled(url, large.digest, small.digest, running.digest, counted)


async def _large(database: Database, url: str, requests: int) -> Manifest:
    trace = make_trace(loads=LOADS, requests=requests, warmup=2, max_tokens=TOKENS)
    fields: dict[str, Any] = {"loads": list(LOADS), "blocks": BLOCKS}
    manifest = make_manifest(name="large", traces={"tasks": trace.digest}, **fields)
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(trace)
        await ExperimentRepository(session).add(manifest)
    made = make_runs(make_trace(loads=LOADS, requests=MADE, warmup=2, max_tokens=TOKENS), manifest)
    for _ in range(manifest.blocks):
        await _block(database, url, made, requests)
    return manifest


async def _block(database: Database, url: str, made: Mapping[Key, MadeRun], requests: int) -> None:
    async with database.transaction() as session:
        block = await claim_block(session, "bench-1")
        if block is None:
            raise RuntimeError("no block waits")
        sessions, evidence = SessionRepository(session), EvidenceRepository(session)
        runs: list[UUID] = []
        for position, arm in enumerate(block.manifest.arms):
            session_id = await sessions.start_session(block.id, block.fence, arm.name, position)
            for state in (SessionState.WARMING, SessionState.MEASURING):
                await sessions.move_session(session_id, block.fence, state)
            for load in block.manifest.loads:
                run_id = await sessions.start_run(session_id, block.fence, "tasks", load.name, 1)
                seen = made[block.index, arm.name, load.name]
                await evidence.record_observations(run_id, block.fence, seen.observations)
                await evidence.record_series(run_id, block.fence, seen.series)
                runs.append(run_id)
                await sessions.finish_run(
                    run_id,
                    block.fence,
                    RunState.SUCCEEDED,
                    failure=None,
                    counters=None,
                    summary=summarise(seen.observations),
                )
            for state in (SessionState.DRAINING, SessionState.SUCCEEDED):
                await sessions.move_session(session_id, block.fence, state)
    for run_id in runs:
        await asyncio.to_thread(_multiply, url, block.manifest.digest, run_id, requests)
    async with database.transaction() as session:
        await LeaseRepository(session).finish(block.id, block.fence, BlockState.SUCCEEDED, None)


def _multiply(url: str, experiment: str, run_id: UUID, requests: int) -> None:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        names = [row[0] for row in connection.execute(_NAMES).fetchall()]
        values = ", ".join(_MOVED.get(name, f"o.{name}").format(made=MADE) for name in names)
        statement = _AGAIN.format(columns=", ".join(names), values=values, made=MADE)
        last = connection.execute(b"SELECT max(due_ns) FROM observation WHERE run_id = %s", [run_id]).fetchone()
        asked = {"times": requests // MADE, "requests": requests, "experiment": experiment, "run": run_id}
        connection.execute(statement.encode(), {**asked, "span": last[0] if last else 0})


_NAMES: Final = (
    b"SELECT attname::text FROM pg_attribute WHERE attrelid = 'observation'::regclass AND attnum > 0"
    b" AND NOT attisdropped ORDER BY attnum"
)


def _counted(url: str, experiment: str) -> int:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(b"VACUUM ANALYZE observation")
        counted = connection.execute(b"SELECT count(*) FROM observation WHERE experiment = %s", [experiment]).fetchone()
    return int(counted[0]) if counted else 0
