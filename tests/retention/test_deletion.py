"""Deleting an experiment takes all of it and nothing else; what is cut off in between is swept."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.artifacts.store import ArtifactStore
from app.db.session import Database
from app.domain.errors import IllegalTransition, NotFound
from app.domain.lifecycle import BlockState
from app.evidence.repository import EvidenceRepository
from app.retention import service
from app.retention.service import RetentionService
from app.settings import Settings
from tests.db.conftest import Bench
from tests.db.hosts import sql
from tests.factories import make_observation

TABLES = ("experiment", "block", "session", "run", "observation", "series", "artifact")


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def store(settings: Settings) -> ArtifactStore:
    return ArtifactStore(settings.artifacts)


@pytest.fixture
def retention(database: Database, settings: Settings) -> RetentionService:
    return RetentionService(database, settings, grace_s=0)


async def measured(bench: Bench, store: ArtifactStore, scratch: Path, *logs: str, seed: int = 1) -> str:
    """A finished experiment with one observation and these logs."""
    digest = await bench.register(blocks=1, schedule_seed=seed)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.database.transaction() as session:
        evidence = EvidenceRepository(session)
        await evidence.record_observations(run_id, block.fence, [make_observation()])
        for log in logs:
            (scratch / "log").write_text(log)
            kept = store.put(scratch / "log")
            await evidence.record_artifact("engine-log", kept.sha256, kept.path, session_id, None, kept.size_bytes)
    await bench.finish_run(block, session_id, run_id)
    await bench.finish(block, BlockState.SUCCEEDED)
    return digest


def counts(bench: Bench) -> list[int]:
    return [sql(bench.database, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES]  # noqa: S608  (our names)


def everything(bench: Bench) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sql(bench.database, f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}  # noqa: S608


async def test_an_experiment_goes_with_all_of_it_and_another_one_stays_as_it_was(
    bench: Bench, store: ArtifactStore, retention: RetentionService, tmp_path: Path
) -> None:
    await measured(bench, store, tmp_path, "shared", "kept")
    before, files = everything(bench), {*store.digests(older_than_s=0)}
    digest = await measured(bench, store, tmp_path, "shared", "own", seed=2)
    deleted = await retention.delete(digest[:16])
    assert (deleted.id, deleted.artifacts_removed, deleted.bytes_freed) == (digest, 1, len("own"))
    assert not deleted.left_for_sweep
    assert everything(bench) == before
    assert {*store.digests(older_than_s=0)} == files
    with pytest.raises(NotFound):
        await retention.delete(digest)


@pytest.mark.parametrize("under_way", [False, True])
async def test_a_running_experiment_is_not_deleted_and_the_refusal_names_its_state(
    bench: Bench, retention: RetentionService, under_way: bool
) -> None:
    digest = await bench.register()
    if under_way:
        await bench.claim()
    before = counts(bench)
    with pytest.raises(IllegalTransition, match="it is RUNNING" if under_way else "it is QUEUED"):
        await retention.delete(digest)
    assert counts(bench) == before


async def test_behind_a_reader_it_is_gone_at_once_and_its_tables_with_the_sweep(
    bench: Bench, store: ArtifactStore, retention: RetentionService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TRIES", 2)
    digest = await measured(bench, store, tmp_path, "log")
    async with bench.database.reader() as reading:
        await reading.execute(text("SELECT count(*) FROM observation"))
        assert (await retention.delete(digest)).left_for_sweep
    assert counts(bench)[0] == 0
    swept = await retention.sweep()
    assert (swept.experiments_dropped, counts(bench)) == (1, [0] * len(TABLES))
    assert sql(bench.database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'observation'::regclass") == [(0,)]


async def test_files_that_a_crash_has_left_are_swept_and_no_other(
    bench: Bench, store: ArtifactStore, retention: RetentionService, tmp_path: Path
) -> None:
    digest = await measured(bench, store, tmp_path, "kept")
    (tmp_path / "orphan").write_text("nothing refers to it")
    store.put(tmp_path / "orphan")
    assert (await retention.sweep()).artifacts_removed == 1
    assert (await retention.sweep()).artifacts_removed == 0
    sql(bench.database, "DELETE FROM experiment WHERE digest = %s", digest)
    swept = await retention.sweep()
    assert (swept.artifacts_removed, swept.experiments_dropped, swept.bytes_freed) == (1, 1, len("kept"))


async def test_what_is_being_stored_just_now_is_left_alone(
    database: Database, settings: Settings, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "fresh").write_text("about to be referred to")
    kept = store.put(tmp_path / "fresh")
    assert (await RetentionService(database, settings).sweep()).artifacts_removed == 0
    assert store.has(kept.sha256)


async def test_over_the_api(client: httpx.AsyncClient, bench: Bench, store: ArtifactStore, tmp_path: Path) -> None:
    digest = await measured(bench, store, tmp_path)
    path = f"/api/v1/experiments/{digest}"
    answer = await client.delete(path)
    assert (answer.status_code, answer.json()["id"]) == (200, digest)
    assert (await client.delete(path)).status_code == (await client.get(path)).status_code == 404
    await bench.register()
    refused = await client.delete(path)
    assert refused.status_code == 404 or refused.json()["title"] == "The state does not allow this"
