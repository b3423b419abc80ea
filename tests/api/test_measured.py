"""A measured experiment read back: runs, sessions, observations, log, report, figures, bundle, events."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from app.artifacts.store import Artifact, ArtifactStore
from app.bundle.archive import root_of, unpack
from app.bundle.contents import open_contents
from app.bundle.verifying import verify
from app.comparisons import service
from app.db.session import Database
from app.domain.evidence import CounterDeltas, ExperimentEvidence
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.report import Report, build_report
from app.domain.run_summary import summarise
from app.domain.series import Series
from app.errors import TooManyStreams
from app.evidence.repository import EvidenceRepository
from app.experiments.events import Streams
from app.experiments.repository import ExperimentRepository
from app.figures import FIGURES
from app.leases.repository import LeaseRepository
from app.main import create_app
from app.printed.html import POLICY, printable
from app.printed.markdown import markdown
from app.runs.repository import SessionRepository
from app.settings import Settings
from tests.conftest import client_of, libpq_url
from tests.factories import SPECULATION, make_manifest, make_observation, make_trace
from tests.factories_leases import claim_block

GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
LOGS = {
    "startup-log": b"\x1b[31mINFO\x1b[0m ready",
    "engine-log": b"\x1b[31mINFO\x1b[0m ready\x07\nsecond line\n",
}
REQUESTS = ("tasks-low-0", "tasks-low-1")


async def measure(database: Database, artifacts: Path) -> str:
    """Register a manifest and conduct all its blocks with made-up evidence."""
    trace, manifest = make_trace(), make_manifest()
    async with database.transaction() as session:
        await EvidenceRepository(session).store_trace(trace)
        await ExperimentRepository(session).add(manifest)
    for _ in range(manifest.blocks):
        await measure_block(database, store_logs(artifacts))
    return manifest.digest


def store_logs(artifacts: Path) -> dict[str, Artifact]:
    """A log that grew after its server had started."""
    artifacts.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Artifact] = {}
    for kind, text in (
        ("startup-log", b"\x1b[31mINFO\x1b[0m ready"),
        ("engine-log", b"INFO\x1b[0m ready\x07\nsecond line\n"),
        ("client-range", b'{"format":"verdraft/client-range/v0"}'),
    ):
        log = artifacts.parent / kind
        log.write_bytes(text)
        stored[kind] = ArtifactStore(str(artifacts)).put(log)
    return stored


async def measure_block(database: Database, logs: Mapping[str, Artifact] | None = None) -> None:
    async with database.transaction() as session:
        blocks, evidence = SessionRepository(session), EvidenceRepository(session)
        block = await claim_block(session, "worker-1")
        assert block is not None
        for position, arm in enumerate(block.manifest.arms):
            speculates = arm.name != "target-only"
            session_id = await blocks.start_session(block.id, block.fence, arm.name, position)
            for kind, log in (logs or {}).items():
                await evidence.record_artifact(kind, log.sha256, log.path, session_id, None, log.size_bytes)
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


async def test_a_log_that_is_elsewhere_or_damaged_is_not_served(
    client: httpx.AsyncClient, database: Database, settings: Settings, measured: str
) -> None:
    session_id = (await client.get(f"{measured}/sessions")).json()[0]["id"]
    for log in settings.artifact_root.glob("*/*"):
        log.write_bytes(b"forged")
    answer = await client.get(f"/api/v1/sessions/{session_id}/log")
    assert (answer.status_code, answer.json()["title"]) == (404, "The artifact is damaged")
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


async def test_the_report_can_be_taken_away(client: httpx.AsyncClient, measured: str) -> None:
    report = Report.model_validate_json((await client.get(f"{measured}/report")).content)
    written, page = await client.get(f"{measured}/report.md"), await client.get(f"{measured}/report.html")
    assert written.headers["content-type"].startswith("text/markdown")
    assert written.text == markdown(report)
    assert page.text == printable(report)
    assert page.headers["content-security-policy"] == POLICY
    assert (await client.get(f"/api/v1/experiments/{'f' * 64}/report.md")).status_code == 404


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


async def test_a_bundle_verifies_and_has_its_start_up_logs(
    client: httpx.AsyncClient, measured: str, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.tar.zst"
    answer = await client.get(f"{measured}/bundle")
    assert answer.headers["content-type"] == "application/zstd"
    path.write_bytes(answer.content)
    found = verify(path)
    assert found.problems == ()
    assert found.root == root_of(path) == answer.headers["Verdraft-Root"]
    assert (found.experiment, found.accelerator) == (measured.rpartition("/")[2], "cpu")
    assert (found.runs, found.observations) == (4, 8)
    assert included(path, tmp_path / "plain") == {"startup-log", "client-range"}
    path.write_bytes((await client.get(f"{measured}/bundle", params={"with_raw": True})).content)
    assert verify(path).problems == ()
    assert included(path, tmp_path / "raw") == {"startup-log", "engine-log", "client-range"}


def included(bundle: Path, place: Path) -> set[str]:
    place.mkdir()
    unpack(bundle, place)
    return {line.kind for line in open_contents(place).artifacts if line.included}


async def test_a_bundle_leaves_nothing_behind(client: httpx.AsyncClient, settings: Settings, measured: str) -> None:
    assert (await client.get(f"{measured}/bundle")).status_code == 200
    assert [p.name for p in settings.home.iterdir() if p.name.startswith("scratch-")] == []


async def test_a_large_experiment_has_the_same_report_without_being_held_in_memory(
    client: httpx.AsyncClient, settings: Settings, measured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = (await client.get(f"{measured}/report")).content
    monkeypatch.setattr(service, "HELD_MAX", 1)
    async with client_of(create_app(settings), settings) as other:
        psql(settings, "DELETE FROM report")
        assert (await other.get(f"{measured}/report")).content == held


async def test_a_report_is_computed_once_and_outlives_the_process(
    settings: Settings, measured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes with two readers each, all at once; then another one, which finds it in Postgres."""
    computed: list[str] = []

    def counted(evidence: ExperimentEvidence) -> Report:
        computed.append(evidence.manifest.digest)
        return build_report(evidence)

    monkeypatch.setattr(service, "build_report", counted)
    first, second = create_app(settings), create_app(settings)
    async with client_of(first, settings) as one, client_of(second, settings) as two:
        answers = await asyncio.gather(*(c.get(f"{measured}/report") for c in (one, two, one, two)))
        assert len({answer.content for answer in answers}) == 1
    async with client_of(create_app(settings), settings) as later:
        assert (await later.get(f"{measured}/report")).content == answers[0].content
    assert len(computed) == 1


def psql(settings: Settings, statement: str) -> None:
    with psycopg.connect(libpq_url(settings.database_url.get_secret_value()), autocommit=True) as connection:
        connection.execute(statement.encode())


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
