"""What a page is told while a run is under way: within seconds, redacted, and without a trace in the evidence."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text

from app.db.notify import LIVE_BYTES_MAX, Live, LiveSender, subscribe
from app.db.session import Database
from app.domain.evidence import ExperimentEvidence
from app.domain.live import LiveLog, LivePicture
from app.domain.manifest import Manifest
from app.settings import Settings
from tests.factories import make_trace
from tests.worker.conduct import LOADS, Place, PlaceMaker, make_place
from worker.live import LOG_READ_BYTES, LiveFeed, LiveSource

SECRET = "hf_abcdefghijklmnop"
TABLES = ("session", "run", "observation", "series", "artifact", "verification", "report")


async def test_live_values_of_a_run_are_told_while_it_is_under_way(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(make_trace(loads=LOADS, requests=60, warmup=2), loads=list(LOADS))
    async with heard_of(here.database, manifest) as heard:
        await here.conduct()
    pictures = [LivePicture.model_validate_json(live.body) for live in heard if live.kind == "live"]
    during = [p for p in pictures if p.run is not None and p.arm == "ngram-k4" and 0 < p.run.finished < p.run.requests]
    assert during, "no picture between the first and the last answer of a run"
    run = during[-1].run
    assert run is not None
    assert run.requests == 60
    assert run.finished + run.running + run.waiting <= run.requests
    assert run.tokens_per_s is not None
    assert run.ttft_ms is not None
    assert len(run.by_position) == 4
    assert list(run.by_position) == sorted(run.by_position, reverse=True)
    assert len(run.history) >= 2
    assert all(p.run is None or not p.run.by_position for p in pictures if p.arm == "target-only")
    assert any(p.engine_rss_bytes for p in pictures)
    logs = [LiveLog.model_validate_json(live.body) for live in heard if live.kind == "log"]
    assert any(line for log in logs for line in log.lines)
    assert max(len(live.body.encode()) for live in heard) <= LIVE_BYTES_MAX


async def test_evidence_is_the_same_whether_pages_are_told_or_not(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    told, untold = [await conducted(settings, database, tmp_path / str(live), live=live) for live in (True, False)]
    assert told[1] == untold[1]
    assert told[0], "nothing was told"
    assert untold[0] == []


async def test_a_database_that_is_away_costs_the_picture_only(settings: Settings, tmp_path: Path) -> None:
    nowhere = LiveSender("postgresql+psycopg://verdraft@127.0.0.1:1/nothing", "0" * 64)
    async with LiveFeed(LiveSource(0, "ngram-k4", tmp_path / "none.log", tmp_path / "none.txt"), nowhere):
        await asyncio.sleep(0)
    assert settings.live


async def test_the_end_of_a_log_is_told_redacted_and_bounded(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    noise = "\x00\x1b[31m" * 40
    log.write_text(
        f"{SECRET}" * 2000 + f"\nloading with {SECRET}\n{noise}\n" + "x" * 500 + f"\nhalf a line {SECRET[:9]}"
    )
    assert log.stat().st_size > LOG_READ_BYTES
    lines = (await first_log(database, log)).lines
    assert lines[0] == "loading with hf_[redacted]"
    assert not any("hf_abc" in line for line in lines)
    assert max(map(len, lines)) <= 301
    log.write_text("\x00" * 299 + "\n" + ("\x00" * 299 + "\n") * 40)
    assert len((await first_log(database, log)).model_dump_json().encode()) <= LIVE_BYTES_MAX


async def first_log(database: Database, log: Path) -> LiveLog:
    digest = "a" * 64
    feed = LiveFeed(LiveSource(0, "arm", log, log.with_suffix(".txt")), LiveSender(database.url, digest))
    async with subscribe(database.url, timeout_s=20, live_of=digest) as heard, feed:
        async for message in heard:
            if isinstance(message, Live) and message.kind == "log":
                return LiveLog.model_validate_json(message.body)
    raise AssertionError("no log was told")


async def conducted(
    settings: Settings, database: Database, root: Path, *, live: bool
) -> tuple[list[Live], dict[str, Any]]:
    """What was told of an experiment, and what is known of it afterwards but for times."""
    root.mkdir()
    place = make_place(settings.model_copy(update={"live": live}), database, root)
    manifest = await place.submit(name=f"live-{live}".lower())
    async with heard_of(database, manifest) as heard:
        await place.conduct()
    return heard, shape(await place.evidence(manifest)) | await rows(place)


def shape(evidence: ExperimentEvidence) -> dict[str, Any]:
    return {
        "runs": [
            (
                r.block,
                r.arm,
                r.workload,
                r.load,
                r.state,
                r.counters,
                [(o.request_id, o.outcome, o.token_ids, o.text) for o in r.observations],
            )
            for r in evidence.runs
        ],
        "series": [sorted({s.name for s in r.series}) for r in evidence.runs],
        "sessions": [(s.block, s.arm, s.state, s.failure) for s in evidence.sessions],
    }


async def rows(place: Place) -> dict[str, Any]:
    """How many rows there are of each kind, and which tables there are at all; then the tables are emptied."""
    counted: dict[str, Any] = {}
    async with place.database.transaction() as session:
        kinds = await session.execute(text("SELECT kind, count(*) FROM artifact GROUP BY kind ORDER BY kind"))
        counted["artifacts"] = [tuple(row) for row in kinds]
        tables = (
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename !~ '_[0-9a-f]{12}' ORDER BY 1"
        )
        counted["tables"] = [name for (name,) in await session.execute(text(tables))]
        for name in TABLES:
            counted[name] = await session.scalar(text(f"SELECT count(*) FROM {name}"))  # noqa: S608
        await session.execute(text("TRUNCATE trace, experiment, artifact, observation, series CASCADE"))
    return counted


@asynccontextmanager
async def heard_of(database: Database, manifest: Manifest) -> AsyncGenerator[list[Live]]:
    """The live values that are sent meanwhile."""
    heard: list[Live] = []

    async def listen() -> None:
        async with subscribe(database.url, live_of=manifest.digest) as messages:
            heard_live = (message async for message in messages if isinstance(message, Live))
            async for message in heard_live:
                heard.append(message)  # noqa: PERF401  (as they come: this is canceled, not exhausted)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.5)
    yield heard
    await asyncio.sleep(0.5)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
