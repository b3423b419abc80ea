"""Pages of lists and the upload of another tool's result, asked as a browser without scripts would."""

import re
from pathlib import Path

import httpx
import pytest

from app.db.acting import acting_as
from app.db.session import Database
from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.experiments.listing.repository import ListingRepository
from app.experiments.listing.search import Search
from app.experiments.repository import ExperimentRepository
from app.pages import import_routes, workload_routes
from tests.factories import encode_lines, make_manifest, trace_lines

RESULT = (Path(__file__).parent.parent / "data" / "interop" / "vllm_bench_ngram.json").read_bytes()
HERE = {"Sec-Fetch-Site": "same-origin"}


async def token(client: httpx.AsyncClient) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', (await client.get("/imports/new")).text)
    assert found
    return found[1]


async def send(
    client: httpx.AsyncClient, content: bytes = RESULT, headers: dict[str, str] = HERE, **fields: str
) -> httpx.Response:
    typed = {"form_token": await token(client), "label": "host B"} | fields
    return await client.post("/imports/new", data=typed, files={"file": ("r.json", content)}, headers=headers)


async def test_a_result_is_stored_listed_and_forgotten(client: httpx.AsyncClient) -> None:
    answer = await send(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/imports")
    listed = (await client.get("/imports")).text
    assert "host B" in listed
    (digest,) = re.findall(r"/imports/([0-9a-f]{64})/forget", listed)
    gone = await client.post(f"/imports/{digest}/forget", data={"form_token": await token(client)}, headers=HERE)
    assert gone.status_code == 303
    assert "host B" not in (await client.get("/imports")).text


async def test_it_is_shown_beside_its_experiment(client: httpx.AsyncClient, database: Database) -> None:
    manifest = make_manifest()
    async with database.transaction() as session:
        await ExperimentRepository(session).add(manifest)
    assert (
        f'value="{manifest.digest[:12]}"' in (await client.get(f"/imports/new?experiment={manifest.digest[:12]}")).text
    )
    answer = await send(client, experiment=manifest.digest[:12])
    assert answer.headers["location"] == f"/experiments/{manifest.digest[:12]}/compare#imports-title"


@pytest.mark.parametrize(
    ("content", "fields", "field"),
    [
        (b"", {}, "file"),
        (b"{}", {}, "file"),
        (RESULT, {"label": ""}, "label"),
        (RESULT, {"label": "x" * 121}, "label"),
        (RESULT, {"experiment": "f" * 12}, "experiment"),
    ],
)
async def test_what_is_wrong_is_said_beside_its_input(
    client: httpx.AsyncClient, content: bytes, fields: dict[str, str], field: str
) -> None:
    answer = await send(client, content, HERE, **fields)
    assert answer.status_code == 422
    assert f'id="wrong-{field}-1"' in answer.text
    assert f'href="#{field}"' in answer.text
    assert "None yet" in (await client.get("/imports")).text


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}])
async def test_an_upload_from_another_site_is_refused(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await send(client, headers=headers)).status_code == 403
    assert (await send(client, form_token="x")).status_code == 403


async def test_imports_are_paged(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_routes, "SHOWN", 1)
    await send(client)
    await send(client, RESULT + b"\n", label="host C")
    first = (await client.get("/imports")).text
    assert "host C" in first
    assert "host B" not in first
    (cursor,) = re.findall(r"cursor=([0-9a-f]{64})", first)
    second = (await client.get(f"/imports?cursor={cursor}")).text
    assert "host B" in second
    assert "Older imports" not in second
    assert (await client.get(f"/imports?cursor={'f' * 64}")).status_code == 404


async def test_workloads_are_paged(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_routes, "SHOWN", 1)
    for name in ("older", "newer"):
        content = encode_lines(trace_lines(name=name))
        await client.post("/api/v1/traces", content=content, headers={"content-type": "application/jsonl"})
    first = (await client.get("/workloads")).text
    assert ">newer</a>" in first
    assert ">older</a>" not in first
    (cursor,) = re.findall(r"cursor=([0-9a-f]{64})", first)
    assert ">older</a>" in (await client.get(f"/workloads?cursor={cursor}")).text


async def test_a_project_is_offered_its_own_owners_and_tags_and_counts_its_own(database: Database) -> None:
    ours, theirs = (Principal("token:x", project, Scope.READ, "x") for project in (DEFAULT_PROJECT, "beta"))
    with acting_as(ours):
        async with database.transaction() as session:
            manifest = make_manifest()
            await ExperimentRepository(session).add(manifest, "ann")
            await ExperimentRepository(session).shelve(manifest.digest, ["secret"], None)
    for principal, owners, tags, count in ((ours, ["ann"], ["secret"], 1), (theirs, [], [], 0)):
        with acting_as(principal):
            async with database.reader() as session:
                listing = ListingRepository(session)
                assert list(await listing.owners()) == owners
                assert list(await listing.tags()) == tags
                assert await listing.count(Search()) == count
