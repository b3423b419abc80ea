"""Evidence out in other tools' formats and their results in, over HTTP."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from app.db.session import Database
from app.settings import Settings
from tests.api.test_measured import measure

DATA = Path(__file__).parent.parent / "data" / "interop"
VLLM = (DATA / "vllm_bench_ngram.json").read_bytes()
JSON = {"content-type": "application/json"}


@pytest.fixture
async def experiment(database: Database, settings: Settings) -> str:
    return await measure(database, settings.artifact_root)


async def exported(client: httpx.AsyncClient, experiment: str, name: str, **query: str) -> httpx.Response:
    answer = await client.get(f"/api/v1/experiments/{experiment}/export/{name}", params=query)
    assert answer.status_code == 200, answer.text
    return answer


async def added(client: httpx.AsyncClient, content: bytes = VLLM, **query: str) -> httpx.Response:
    return await client.post("/api/v1/imports", params={"label": "host B", **query}, content=content, headers=JSON)


async def test_csv_has_every_offered_request_of_every_run(client: httpx.AsyncClient, experiment: str) -> None:
    answer = await exported(client, experiment[:12], "csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert f'filename="verdraft-{experiment[:12]}-csv.csv"' in answer.headers["content-disposition"]
    rows = [*csv.DictReader(io.StringIO(answer.text, newline=""))]
    assert len(rows) == 8
    assert {(r["block"], r["arm"]) for r in rows} == {(b, a) for b in "01" for a in ("target-only", "ngram-k4")}
    assert {(r["experiment"], r["counted"], r["stratum_task"]) for r in rows} == {
        (experiment, "true", "copy"),
        (experiment, "true", "json"),
    }


async def test_jsonl_is_what_the_api_says_of_each_run(client: httpx.AsyncClient, experiment: str) -> None:
    lines = [json.loads(line) for line in (await exported(client, experiment, "jsonl")).text.splitlines()]
    runs = (await client.get(f"/api/v1/experiments/{experiment}/runs")).json()
    by_run: list[Any] = []
    for run in runs:
        by_run += (await client.get(f"/api/v1/runs/{run['id']}/observations")).json()["items"]
    key = json.dumps
    assert sorted((line["observation"] for line in lines), key=key) == sorted(by_run, key=key)


@pytest.mark.parametrize(("name", "rows"), [("parquet-requests", 8), ("parquet-chunks", 16)])
async def test_parquet(client: httpx.AsyncClient, experiment: str, name: str, rows: int) -> None:
    answer = await exported(client, experiment, name)
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert pq.read_table(io.BytesIO(answer.content)).num_rows == rows


@pytest.mark.parametrize("name", ["vllm", "llm-d"])
async def test_documents_come_as_a_zip_or_one_by_one(client: httpx.AsyncClient, experiment: str, name: str) -> None:
    answer = await exported(client, experiment, name)
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert len(archive.namelist()) == 4
        packed = archive.read("block-1/ngram-k4/tasks/low/attempt-1.json")
    single = await exported(client, experiment, name, run="1/ngram-k4/tasks/low/1")
    assert single.headers["content-type"] == "application/json"
    assert single.content == packed


async def test_one_run_of_a_table(client: httpx.AsyncClient, experiment: str) -> None:
    answer = await exported(client, experiment, "jsonl", run="0/target-only/tasks/low/1")
    assert {json.loads(line)["arm"] for line in answer.text.splitlines()} == {"target-only"}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("csv?run=9/ngram-k4/tasks/low/1", "run"),
        ("csv?run=nothing", "run"),
        ("xlsx", "format"),
    ],
)
async def test_what_is_not_there_is_said_before_the_first_byte(
    client: httpx.AsyncClient, experiment: str, path: str, field: str
) -> None:
    answer = await client.get(f"/api/v1/experiments/{experiment}/export/{path}")
    assert answer.status_code == 404
    assert answer.json()["problems"][0]["field"] == field


async def test_a_result_is_kept_beside_its_experiment_and_forgotten(client: httpx.AsyncClient, experiment: str) -> None:
    first = await added(client, experiment=experiment[:12])
    assert first.status_code == 201
    stored = first.json()
    assert stored["experiment_id"] == experiment
    assert stored["result"]["status"] == "not controlled by Verdraft"
    assert stored["result"]["parts"][0]["summaries"]["ttft"]["statistics"]["p99"] == 321.5311804699104
    again = await added(client, experiment=experiment)
    assert (again.status_code, again.json()) == (200, stored)
    assert (await client.get("/api/v1/imports")).json() == [stored]
    assert (await client.get(f"/api/v1/experiments/{experiment}/imports")).json() == [stored]
    assert (await client.delete(f"/api/v1/imports/{stored['digest']}")).status_code == 204
    assert (await client.get("/api/v1/imports")).json() == []
    assert (await client.delete(f"/api/v1/imports/{stored['digest']}")).status_code == 404


async def test_an_import_changes_nothing_in_the_report(client: httpx.AsyncClient, experiment: str) -> None:
    path = f"/api/v1/experiments/{experiment}/report"
    before = (await client.get(path)).content
    await added(client, experiment=experiment)
    assert (await client.get(path)).content == before


async def test_a_file_needs_no_experiment(client: httpx.AsyncClient, database: Database) -> None:
    answer = await added(client, (DATA / "guidellm_v2.json").read_bytes())
    assert (answer.status_code, answer.json()["experiment_id"]) == (201, None)


async def test_the_same_file_under_another_label_is_a_conflict(client: httpx.AsyncClient, database: Database) -> None:
    await added(client)
    answer = await added(client, label="another")
    assert answer.status_code == 409
    assert "'host B'" in answer.json()["detail"]


async def test_a_file_that_is_refused_names_its_field(client: httpx.AsyncClient, database: Database) -> None:
    answer = await added(client, VLLM.replace(b'"duration": 30', b'"duration": -30'))
    assert (answer.status_code, answer.json()["problems"][0]["field"]) == (422, "duration")
    assert (await client.get("/api/v1/imports")).json() == []


async def test_an_unknown_experiment_and_a_strange_type_are_refused(
    client: httpx.AsyncClient, database: Database
) -> None:
    assert (await added(client, experiment="f" * 64)).status_code == 404
    answer = await client.post("/api/v1/imports?label=x", content=b"{}", headers={"content-type": "text/html"})
    assert answer.status_code == 415


async def test_files_with_details_of_each_request_may_be_large(client: httpx.AsyncClient, database: Database) -> None:
    document = json.loads(VLLM)
    document["generated_texts"] = ["x" * 20_000] * 120
    assert (await added(client, json.dumps(document).encode())).status_code == 201
