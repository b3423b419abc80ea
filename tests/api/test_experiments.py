"""Register, read, list and cancel experiments."""

import hashlib
import json
from typing import Any

import httpx
import pytest
import yaml

from app.db.session import Database
from app.domain.manifest import parse_manifest
from app.experiments.examples import MANIFEST
from app.leases.repository import LeaseRepository
from tests.factories import BASELINE, encode_lines, manifest_document, trace_lines
from tests.factories_leases import claim_block

EXPERIMENTS = "/api/v1/experiments"
JSONL = {"content-type": "application/jsonl"}


async def upload(client: httpx.AsyncClient, **keywords: Any) -> str:
    answer = await client.post("/api/v1/traces", content=encode_lines(trace_lines(**keywords)), headers=JSONL)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()["digest"]


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    """A manifest whose trace is stored."""
    return manifest_document(traces={"tasks": await upload(client)})


async def problems(answer: httpx.Response) -> dict[str, str]:
    """Field → message of a refusal."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(item["remedy"] for item in body["problems"])
    return {item["field"]: item["message"] for item in body["problems"]}


async def test_a_new_manifest_is_registered_with_its_blocks(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    answer = await client.post(EXPERIMENTS, json=document)
    assert answer.status_code == 201
    experiment = answer.json()
    assert experiment["state"] == "QUEUED"
    planned = {key: experiment[f"{key}_planned"] for key in ("blocks", "sessions", "runs")}
    assert planned == {"blocks": 2, "sessions": 4, "runs": 4}
    assert experiment["seconds_left"] is None
    assert answer.headers["location"] == experiment["links"]["self"] == f"{EXPERIMENTS}/{experiment['id']}"


async def test_the_same_digest_twice_returns_the_first(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    first = await client.post(EXPERIMENTS, json=document)
    # Key order and spelled-out defaults are not part of the identity.
    again = dict(reversed(list(document.items()))) | {"session_policy": "per_arm"}
    second = await client.post(EXPERIMENTS, json=again)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert len((await client.get(EXPERIMENTS)).json()["items"]) == 1


async def test_yaml_and_json_give_the_same_experiment(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    first = await client.post(EXPERIMENTS, json=document)
    as_yaml = yaml.safe_dump(document)
    second = await client.post(EXPERIMENTS, content=as_yaml, headers={"content-type": "application/yaml"})
    assert (second.status_code, second.json()["id"]) == (200, first.json()["id"])


async def test_the_manifest_comes_back_as_the_bytes_that_are_its_id(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    experiment = (await client.post(EXPERIMENTS, json=document)).json()
    manifest = await client.get(f"{EXPERIMENTS}/{experiment['id'][:12]}/manifest")
    assert hashlib.sha256(manifest.content).hexdigest() == experiment["id"]


async def test_every_problem_of_a_manifest_is_in_one_answer(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    document |= {"surprise": 1, "target_model": "org/model@main"}
    document["loads"] = [{"name": "low", "regime": "latency", "rate_rps": -1}]
    document["arms"] = [BASELINE, {"name": "n", "speculation": {"method": "ngram", "num_speculative_tokens": 0}}]
    answer = await client.post(EXPERIMENTS, json=document)
    assert answer.status_code == 422
    assert set(await problems(answer)) >= {
        "surprise",
        "target_model",
        "loads[0].rate_rps",
        "arms[1].speculation.num_speculative_tokens",
    }


async def test_an_unknown_key_is_refused_by_name(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    document["serving"] |= {"trust_remote_code": True, "turbo": 1}
    document["surprise"] = 1
    answer = await client.post(EXPERIMENTS, json=document)
    assert await problems(answer) == {
        "serving.trust_remote_code": "Python code out of a model repository is never run",
        "serving.turbo": "this engine argument is not on the allowlist",
        "surprise": "this key is unknown",
    }


async def test_an_unknown_trace_and_a_misfit_are_told_together(client: httpx.AsyncClient) -> None:
    other_rate = await upload(client, loads=[{"name": "low", "rate_rps": 8.0}])
    body = manifest_document(traces={"tasks": other_rate, "open": "f" * 64})
    answer = await client.post(EXPERIMENTS, json=body)
    assert answer.status_code == 422
    assert set(await problems(answer)) == {"workloads[0].trace", "workloads[1].trace"}


async def test_a_prompt_longer_than_the_model_is_refused(client: httpx.AsyncClient) -> None:
    long = await upload(client, prompt_token_ids=[1] * 510)
    answer = await client.post(EXPERIMENTS, json=manifest_document(traces={"tasks": long}))
    messages = await problems(answer)
    assert "longer than serving.max_model_len 512" in messages["workloads[0].trace"]


async def test_a_refused_manifest_registers_nothing(client: httpx.AsyncClient) -> None:
    await client.post(EXPERIMENTS, json=manifest_document(traces={"tasks": "f" * 64}))
    page = (await client.get(EXPERIMENTS)).json()
    assert (page["items"], page["total"]) == ([], 0)


async def test_lists_page_by_page_newest_first(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    ids = [(await client.post(EXPERIMENTS, json=document | {"schedule_seed": i})).json()["id"] for i in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await client.get(EXPERIMENTS, params=query)).json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == ids[::-1]


async def test_a_prefix_must_be_long_enough_and_known(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    experiment = (await client.post(EXPERIMENTS, json=document)).json()
    assert (await client.get(f"{EXPERIMENTS}/{experiment['id'][:12]}")).json()["id"] == experiment["id"]
    for reference in (experiment["id"][:11], "0" * 12, "%" * 12, "_" * 64):
        answer = await client.get(f"{EXPERIMENTS}/{reference}")
        assert answer.status_code == 404
        assert set(await problems(answer)) == {"experiment"}


async def test_cancel_before_any_claim_ends_it_at_once_and_twice_is_the_same(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    experiment = (await client.post(EXPERIMENTS, json=document)).json()
    first = await client.post(f"{experiment['links']['self']}/cancel")
    second = await client.post(f"{experiment['links']['self']}/cancel")
    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert first.json()["state"] == "CANCELED"
    assert first.json()["finished_at"] is not None


async def test_cancel_asks_the_holder_of_a_leased_block(
    client: httpx.AsyncClient, document: dict[str, Any], database: Database
) -> None:
    experiment = (await client.post(EXPERIMENTS, json=document)).json()
    async with database.transaction() as session:
        block = await claim_block(session, "worker-1")
    assert block is not None
    answer = await client.post(f"{experiment['links']['self']}/cancel")
    assert answer.json()["state"] == "RUNNING"
    async with database.transaction() as session:
        beat = await LeaseRepository(session).heartbeat(block.id, block.fence, 60)
        assert await claim_block(session, "worker-2") is None
    assert beat.held
    assert beat.cancel_requested


async def test_a_dead_broker_costs_only_a_warning(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    # The fixture's broker refuses connections.
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 201


async def test_the_openapi_example_is_accepted_by_the_parser() -> None:
    assert json.loads(parse_manifest(MANIFEST).canonical())["name"] == MANIFEST["name"]
