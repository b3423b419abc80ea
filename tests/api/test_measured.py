"""A measured experiment read back: runs, sessions, observations, log, report, figures, bundle, events."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from app import bundle
from app.db.session import Database
from app.domain.evidence import CounterDeltas
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.report import Report
from app.domain.run_summary import summarise
from app.domain.series import Series
from app.errors import TooManyStreams
from app.evidence.repository import EvidenceRepository
from app.experiments.events import Streams
from app.experiments.repository import ExperimentRepository
from app.figures import FIGURES
from app.leases.repository import LeaseRepository
from app.runs.repository import SessionRepository
from app.settings import Settings
from tests.factories import SPECULATION, make_manifest, make_observation, make_trace
from tests.factories_leases import claim_block

GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
REQUESTS = ("tasks-low-0", "tasks-low-1")


async def measure(database: Database, artifacts: Path) -> str:
    """Register a manifest and conduct all its blocks with made-up evidence."""
    trace, manifest = make_trace(), make_manifest()
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(trace)
        await ExperimentRepository(session).add(manifest)
    (artifacts / "ab").mkdir(parents=True, exist_ok=True)
    (artifacts / "ab" / "log").write_bytes(b"\x1b[31mINFO\x1b[0m ready\x07\nsecond line\n")
    for _ in range(manifest.blocks):
        await measure_block(database)
    return manifest.digest


async def measure_block(database: Database) -> None:
    async with database.transaction() as session:
        blocks, evidence = SessionRepository(session), EvidenceRepository(session)
        block = await claim_block(session, "worker-1")
        assert block is not None
        for position, arm in enumerate(block.manifest.arms):
            speculates = arm.name != "target-only"
            session_id = await blocks.start_session(block.id, block.fence, arm.name, position)
            await evidence.record_artifact("engine-log", "ab" * 32, "ab/log", session_id, None, 10)
            for state in (SessionState.WARMING, SessionState.MEASURING):
                await blocks.move_session(session_id, block.fence, state)
            run_id = await blocks.start_run(session_id, block.fence, "tasks", "low")
            seen = tuple(
                make_observation(r, due_ns=i * 250_000_000, sent_ns=i * 250_000_000 + 1, **_times(i, speculates))
                for i, r in enumerate(REQUESTS)
            )
            await evidence.record_observations(run_id, block.fence, seen)
            sampled = [Series(name=f"vllm:{name}", at_ns=(0,), values=(1.0,)) for name in GAUGES]
            await evidence.record_series(run_id, block.fence, sampled)
            counters = CounterDeltas(
                prompt_tokens=6, generation_tokens=8, request_success=2, num_preemptions=0, **_spec(speculates)
            )
            await blocks.finish_run(
                run_id,
                block.fence,
                RunState.SUCCEEDED,
                failure=None,
                counters=counters,
                summary=summarise(seen),
            )
            for state in (SessionState.DRAINING, SessionState.SUCCEEDED):
                await blocks.move_session(session_id, block.fence, state)
        await LeaseRepository(session).finish(block.id, block.fence, BlockState.SUCCEEDED, None)


def _times(index: int, speculates: bool) -> dict[str, Any]:
    start = index * 250_000_000
    end = start + (40_000_000 if speculates else 60_000_000)
    return {
        "first_byte_ns": start + 20_000_000,
        "chunk_ns": (start + 20_000_000, end),
        "end_ns": end,
        "speculation": SPECULATION if speculates else None,
    }


def _spec(speculates: bool) -> dict[str, Any]:
    if not speculates:
        return {}
    return {
        "spec_decode_num_drafts": 4,
        "spec_decode_num_draft_tokens": 16,
        "spec_decode_num_accepted_tokens": 4,
        "spec_decode_num_accepted_tokens_per_pos": (4, 0, 0, 0),
    }


@pytest.fixture
async def measured(database: Database, settings: Settings) -> str:
    """The API path of a finished experiment."""
    return f"/api/v1/experiments/{await measure(database, settings.artifact_root)}"


async def test_progress_runs_and_sessions(client: httpx.AsyncClient, measured: str) -> None:
    experiment = (await client.get(measured)).json()
    assert experiment["state"] == "FINISHED"
    assert (experiment["blocks_complete"], experiment["sessions_done"], experiment["runs_done"]) == (2, 4, 4)
    assert experiment["seconds_left"] == 0
    runs = (await client.get(f"{measured}/runs")).json()
    sessions = (await client.get(f"{measured}/sessions")).json()
    assert {r["session_id"] for r in runs} == {s["id"] for s in sessions}
    assert {r["summary"]["success"] for r in runs} == {2}
    assert (await client.get(f"/api/v1/runs/{runs[0]['id']}")).json() == runs[0]


async def test_observations_page_by_page_and_series(client: httpx.AsyncClient, measured: str) -> None:
    run = (await client.get(f"{measured}/runs")).json()[0]
    path = f"/api/v1/runs/{run['id']}"
    first = (await client.get(f"{path}/observations", params={"limit": 1})).json()
    rest = (await client.get(f"{path}/observations", params={"cursor": first["next_cursor"]})).json()
    assert [o["request_id"] for o in first["items"] + rest["items"]] == list(REQUESTS)
    assert rest["next_cursor"] is None
    series = (await client.get(f"{path}/series")).json()
    assert [s["name"] for s in series] == [f"vllm:{name}" for name in sorted(GAUGES)]
    assert (series[0]["labels"], series[0]["at_ns"], series[0]["values"]) == ({}, [0], [1.0])


async def test_a_log_is_plain_text_without_control_characters(client: httpx.AsyncClient, measured: str) -> None:
    session = (await client.get(f"{measured}/sessions")).json()[0]
    log = await client.get(f"/api/v1/sessions/{session['id']}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert log.text == "INFO ready\nsecond line\n"


async def test_a_log_outside_the_artifacts_is_not_served(
    client: httpx.AsyncClient, database: Database, settings: Settings, measured: str
) -> None:
    del measured
    settings.home.mkdir(exist_ok=True)
    (settings.home / "secret").write_text("secret")
    async with database.transaction() as session:
        await ExperimentRepository(session).add(make_manifest(schedule_seed=99))
        blocks = SessionRepository(session)
        block = await claim_block(session, "worker-1")
        assert block is not None
        session_id = await blocks.start_session(block.id, block.fence, "target-only", 0)
        for path in ("../secret", str(settings.home / "secret"), "/etc/passwd"):
            await EvidenceRepository(session).record_artifact("engine-log", "f" * 64, path, session_id, None, 6)
    assert (await client.get(f"/api/v1/sessions/{session_id}/log")).status_code == 404


async def test_report_and_figures_state_the_same_experiment(client: httpx.AsyncClient, measured: str) -> None:
    answer = await client.get(f"{measured}/report")
    report = Report.model_validate_json(answer.content)
    assert f"/api/v1/experiments/{report.experiment}" == measured
    assert (report.blocks_complete, report.interim, report.exploratory) == (2, False, True)
    figures = (await client.get(f"{measured}/figures")).json()
    assert [f["name"] for f in figures] == list(FIGURES)
    for figure in figures:
        assert {"data", "layout"} <= set((await client.get(figure["url"])).json())


async def test_a_report_follows_its_evidence(client: httpx.AsyncClient, database: Database) -> None:
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(make_trace())
        await ExperimentRepository(session).add(make_manifest())
    path = f"/api/v1/experiments/{make_manifest().digest}/report"
    complete: list[int] = []
    for _ in range(2):
        complete.append((await client.get(path)).json()["blocks_complete"])
        await measure_block(database)
    complete.append((await client.get(path)).json()["blocks_complete"])
    assert complete == [0, 1, 2]


def repacked(content: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The bundle with changed members but its old index."""
    members = bundle.unpack(io.BytesIO(content))
    change(members)
    return bundle.archive(members)


async def test_a_bundle_verifies_and_any_change_is_told(
    client: httpx.AsyncClient, measured: str, tmp_path: Path
) -> None:
    answer = await client.get(f"{measured}/bundle")
    assert answer.headers["content-type"] == "application/zstd"
    path = tmp_path / "bundle.tar.zst"
    path.write_bytes(answer.content)
    assert bundle.verify(path) == []

    def damage(members: dict[str, bytes]) -> None:
        members["evidence.json"] = members["evidence.json"].replace(b'"abcd"', b'"abcx"', 1)

    path.write_bytes(repacked(answer.content, damage))
    assert any("evidence.json: sha256" in problem for problem in bundle.verify(path))

    def forge(members: dict[str, bytes]) -> None:
        report = json.loads(members["report.json"])
        report["recommendation"]["sentence"] = "Always use ngram."
        members["report.json"] = json.dumps(report).encode()
        members["index.json"] = bundle.index_of(members, report["experiment"], report["analysis_version"])

    path.write_bytes(repacked(answer.content, forge))
    assert bundle.verify(path) == ["report.json: recomputing it from the evidence gives another report"]


@pytest.mark.parametrize("content", [b"", b"nonsense", zstandard.compress(b"nonsense"), zstandard.compress(b"")])
def test_what_is_no_bundle_is_told_and_not_raised(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.zst"
    path.write_bytes(content)
    assert len(bundle.verify(path)) == 1
    assert len(bundle.verify(tmp_path / "missing")) == 1


async def test_events_tell_the_version_now_then_each_change_then_reconnect(database: Database) -> None:
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(make_trace())
        await ExperimentRepository(session).add(make_manifest())
    digest = make_manifest().digest
    stream = Streams(database, stream_s=5).follow(digest)
    first = await anext(stream)
    async with database.transaction() as session:
        await ExperimentRepository(session).cancel(digest)
    second = await anext(stream)
    told = [json.loads(event["data"]) for event in (first, second)]
    assert told == [{"experiment": digest, "version": 1}, {"experiment": digest, "version": 2}]
    brief = [event async for event in Streams(database, stream_s=0).follow(digest)]
    assert [event["event"] for event in brief] == ["change", "reconnect"]


async def test_streams_are_few_and_given_back(database: Database) -> None:
    streams = Streams(database, limit=1, stream_s=0)
    first = streams.follow("0" * 64)
    with pytest.raises(TooManyStreams):
        streams.follow("0" * 64)
    del first
    await asyncio.sleep(0)
    assert streams.follow("0" * 64) is not None
