"""Strong entity tags and 304; only the fields that are wanted; and both where answers are compressed."""

import json
from typing import Any

import httpx
import pytest

from app.db.session import Database
from app.settings import Settings
from tests.api.test_boundary import check_shape
from tests.api.test_experiments import EXPERIMENTS, upload
from tests.api.test_measured import measure
from tests.factories import manifest_document

PLAIN = {"accept-encoding": "identity"}


@pytest.fixture
async def experiment(client: httpx.AsyncClient) -> dict[str, Any]:
    document = manifest_document(traces={"tasks": await upload(client)})
    return (await client.post(EXPERIMENTS, json=document)).json()


def paths(experiment: dict[str, Any], digest: str) -> list[str]:
    here = f"{EXPERIMENTS}/{experiment['id']}"
    return [here, f"{here}/manifest", f"{here}/report", f"/api/v1/traces/{digest}"]


async def test_what_one_has_is_not_sent_again(client: httpx.AsyncClient, experiment: dict[str, Any]) -> None:
    digest = (await client.get("/api/v1/traces")).json()[0]["digest"]
    for path in paths(experiment, digest):
        first = await client.get(path, headers=PLAIN)
        tag = first.headers["etag"]
        assert tag.startswith('"'), path
        for match in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = await client.get(path, headers={**PLAIN, "if-none-match": match})
            assert (again.status_code, again.content) == (304, b""), (path, match)
            assert again.headers["etag"] == tag
        assert (await client.get(path, headers={**PLAIN, "if-none-match": '"other"'})).content == first.content


async def test_the_tag_changes_with_the_version(client: httpx.AsyncClient, experiment: dict[str, Any]) -> None:
    path = f"{EXPERIMENTS}/{experiment['id']}"
    first = await client.get(path)
    await client.post(f"{path}/cancel")
    changed = await client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.json()["version"] > first.json()["version"]
    assert changed.headers["etag"] != first.headers["etag"]


async def test_other_bytes_have_another_tag(client: httpx.AsyncClient, experiment: dict[str, Any]) -> None:
    path = f"{EXPERIMENTS}/{experiment['id']}/report"
    packed, plain = [await client.get(path, headers={"accept-encoding": e}) for e in ("gzip", "identity")]
    assert packed.headers.get("content-encoding") == "gzip"
    assert packed.headers["etag"] != plain.headers["etag"]
    again = await client.get(path, headers={"accept-encoding": "gzip", "if-none-match": packed.headers["etag"]})
    assert again.status_code == 304
    some = await client.get(f"{path}?fields=name", headers=PLAIN)
    assert some.headers["etag"] != plain.headers["etag"]


async def test_a_missing_thing_has_no_tag(client: httpx.AsyncClient) -> None:
    missing = await client.get(f"{EXPERIMENTS}/{'0' * 64}", headers={"if-none-match": "*"})
    check_shape(missing, 404)
    assert "etag" not in missing.headers


async def test_only_the_fields_that_are_wanted(
    client: httpx.AsyncClient, database: Database, settings: Settings
) -> None:
    measured = f"{EXPERIMENTS}/{await measure(database, settings.artifact_root)}"
    one = (await client.get(f"{measured}?fields=state, id")).json()
    assert one == {"id": measured.rpartition("/")[2], "state": "FINISHED"}
    page = (await client.get(f"{EXPERIMENTS}?fields=name")).json()
    assert {frozenset(item) for item in page["items"]} == {frozenset({"name"})}
    assert "next_cursor" in page
    report = (await client.get(f"{measured}/report?fields=verdicts,interim")).json()
    assert set(report) == {"verdicts", "interim"}
    whole = (await client.get(f"{measured}/report")).json()
    assert report["verdicts"] == whole["verdicts"]
    runs = (await client.get(f"{measured}/runs?fields=arm,state")).json()
    assert runs
    assert {frozenset(run) for run in runs} == {frozenset({"arm", "state"})}


@pytest.mark.parametrize("fields", ["", "nothing", "id,,name", "id,nothing", "ID", "__class__"])
async def test_an_unknown_field_is_refused_by_name(
    client: httpx.AsyncClient, experiment: dict[str, Any], fields: str
) -> None:
    for path in (f"{EXPERIMENTS}/{experiment['id']}", EXPERIMENTS):
        problem = check_shape(await client.get(path, params={"fields": fields}), 422)
        assert problem["problems"][0]["field"] == "query.fields"
        assert "finished_at" in problem["problems"][0]["remedy"]


async def test_an_answer_that_promises_nothing_passes_as_it_comes(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/schemas", headers={"Idempotency-Key": "one", "if-none-match": "*"})
    assert answer.status_code == 200
    assert json.loads(answer.content)


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "nonsense", "*/*;q=0"])
async def test_errors_have_the_one_shape_whatever_is_accepted(client: httpx.AsyncClient, accept: str) -> None:
    check_shape(await client.get(f"{EXPERIMENTS}/{'0' * 64}", headers={"accept": accept}), 404)
    check_shape(await client.put(EXPERIMENTS, headers={"accept": accept}), 405)
    assert (await client.get(EXPERIMENTS, headers={"accept": accept})).headers["content-type"] == "application/json"
