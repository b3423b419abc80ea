"""``workload store``: a file of any size goes into the database without the API's limits."""

from pathlib import Path

import pytest
from anyio import to_thread

from app.db.session import Database
from app.domain.errors import DomainError
from app.evidence.repository import EvidenceRepository
from app.settings import Settings
from app.workloads.storing import store_file
from tests.factories import make_trace


async def test_a_stored_file_is_the_trace_and_is_stored_once(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    trace = make_trace(requests=30)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    told: list[int] = []
    packed, created = await to_thread.run_sync(store_file, path, settings, told.append)
    assert (packed.summary.digest, packed.summary.requests, created) == (trace.digest, len(trace.requests), True)
    assert told[-1] == path.stat().st_size
    _, again = await to_thread.run_sync(store_file, path, settings)
    assert not again
    async with database.reader() as session:
        assert await EvidenceRepository(session).read_trace(trace.digest) == trace


async def test_a_damaged_file_stores_nothing(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(make_trace(requests=3).encode()[:-20])
    with pytest.raises(DomainError) as refused:
        await to_thread.run_sync(store_file, path, settings)
    assert "line" in refused.value.problems[0].field


def test_where_no_service_runs_the_remedy_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(make_trace().encode())
    with pytest.raises(DomainError) as refused:
        store_file(path, Settings(home=tmp_path / "home"))
    assert refused.value.problems[0].field == "database_url"
