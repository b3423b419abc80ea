"""Exports and imports on the command line: from a real service, and from a bundle without one."""

import asyncio
import json
from pathlib import Path

import pytest

from app.db.session import Database
from app.interop.exports.formats import FORMATS
from tests.api.test_measured import measure
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer

DATA = Path(__file__).parent.parent / "data" / "interop"
RUN = "0/ngram-k4/tasks/low/1"
NOWHERE = ("--url", "http://127.0.0.1:1")


async def measured_by(server: LiveServer) -> str:
    database = Database(server.settings.database_url.get_secret_value(), pooled=False)
    try:
        return await measure(database, server.settings.artifact_root)
    finally:
        await database.dispose()


@pytest.fixture
def experiment(live_server: LiveServer) -> str:
    return asyncio.run(measured_by(live_server))


def test_a_bundle_gives_offline_what_the_service_gives(
    verdraft: Verdraft, live_server: LiveServer, experiment: str, tmp_path: Path
) -> None:
    url, bundle = ("--url", live_server.url), tmp_path / "bundle.tar.zst"
    assert verdraft("bundle", experiment, "-o", bundle, *url).exit_code == 0
    for name in FORMATS:
        online, offline = tmp_path / f"{name}.online", tmp_path / f"{name}.offline"
        asked = verdraft("export", experiment[:12], "--format", name, "-o", online, *url)
        assert asked.exit_code == 0, asked.output
        read = verdraft("export", bundle, "--format", name, "-o", offline, *NOWHERE)
        assert read.exit_code == 0, read.output
        assert online.read_bytes() == offline.read_bytes(), name
        assert online.stat().st_size > 0
    assert not [*tmp_path.glob("*.part")]


def test_one_run_of_a_bundle(verdraft: Verdraft, live_server: LiveServer, experiment: str, tmp_path: Path) -> None:
    bundle, output = tmp_path / "bundle.tar.zst", tmp_path / "run.json"
    verdraft("bundle", experiment, "-o", bundle, "--url", live_server.url)
    assert verdraft("export", bundle, "--format", "vllm", "--run", RUN, "-o", output, *NOWHERE).exit_code == 0
    document = json.loads(output.read_bytes())
    assert (document["label"], document["completed"], document["verdraft"]["experiment"]) == ("ngram-k4", 2, experiment)


def test_a_damaged_bundle_is_refused_and_nothing_is_left(verdraft: Verdraft, tmp_path: Path) -> None:
    bundle, output = tmp_path / "bundle.tar.zst", tmp_path / "out.csv"
    bundle.write_bytes(b"not a bundle")
    refused = verdraft("export", bundle, "--format", "csv", "-o", output)
    assert refused.exit_code == 1
    assert "verdraft verify" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.tar.zst"]


def test_an_unknown_format_names_the_known_ones(verdraft: Verdraft, live_server: LiveServer, tmp_path: Path) -> None:
    refused = verdraft("export", "f" * 64, "--format", "xlsx", "-o", tmp_path / "x", "--url", live_server.url)
    assert refused.exit_code == 1
    assert "parquet-requests" in refused.stderr


def test_results_are_imported_listed_and_forgotten(
    verdraft: Verdraft, live_server: LiveServer, experiment: str
) -> None:
    url = ("--url", live_server.url)
    names = {
        "vllm_bench_ngram.json": "vllm bench serve",
        "guidellm_v2.json": "guidellm 0.8.1",
        "aiperf_profile_export.json": "aiperf 0.13.0",
    }
    for name, tool in names.items():
        kept = verdraft("import-result", DATA / name, "--label", f"host B, {name}", "--experiment", experiment, *url)
        assert kept.exit_code == 0, kept.output
        assert f"tool: {tool}" in kept.stdout
        assert "status: not controlled by Verdraft" in kept.stdout
    listed = verdraft("imports", "--experiment", experiment[:12], *url).stdout
    assert "4 requests/s: ttft p50 20.23 ms" in listed
    digest = json.loads(verdraft("imports", "--json", *url).stdout)[0]["digest"]
    assert verdraft("imports", "--forget", digest[:10], *url).exit_code == 0
    assert len(json.loads(verdraft("imports", "--json", *url).stdout)) == 2
    assert verdraft("imports", "--forget", digest[:10], *url).exit_code == 1


def test_a_foreign_file_is_refused_with_what_is_known(
    verdraft: Verdraft, live_server: LiveServer, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"elapsed_time": 3}')
    refused = verdraft("import-result", file, "--label", "x", "--url", live_server.url)
    assert refused.exit_code == 1
    assert "vllm bench throughput" in refused.stderr
