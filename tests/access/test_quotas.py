"""How much one project may ask for, and what belongs to whoever was first."""

from typing import Any

import httpx
import pytest

from app.access.schemas import TokenWish
from app.domain.access import Scope
from app.main import create_app
from tests.access.conftest import OURS, THEIRS, Guarded, bearer
from tests.api.test_boundary import check_shape
from tests.factories import make_trace, manifest_document

EXPERIMENTS = "/api/v1/experiments"


@pytest.fixture
async def document(guarded: Guarded) -> dict[str, Any]:
    """A manifest whose trace both projects have."""
    digest = ""
    for project in (OURS, THEIRS):
        headers = {**guarded.headers(project, Scope.SUBMIT), "content-type": "application/jsonl"}
        answer = await guarded.client.post("/api/v1/traces", content=make_trace().encode(), headers=headers)
        assert answer.status_code == 201, "new for this project, whoever else has it"
        digest = answer.json()["digest"]
    return manifest_document(traces={"tasks": digest})


async def test_a_project_may_not_queue_without_end(guarded: Guarded, document: dict[str, Any]) -> None:
    few = guarded.settings.model_copy(update={"project_queue_max": 1})
    transport = httpx.ASGITransport(create_app(few))
    ours, theirs = guarded.headers(OURS, Scope.SUBMIT), guarded.headers(THEIRS, Scope.SUBMIT)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        first = await client.post(EXPERIMENTS, headers=ours, json=document)
        assert first.status_code == 201, first.text
        refused = await client.post(EXPERIMENTS, headers=ours, json=document | {"name": "second"})
        assert "its quota" in check_shape(refused, 429)["detail"]
        assert (await client.post(EXPERIMENTS, headers=ours, json=document)).status_code == 200, "the same is no more"
        other = await client.post(EXPERIMENTS, headers=theirs, json=document | {"name": "third"})
        assert other.status_code == 201, "another project has a quota of its own"
        await client.post(f"{EXPERIMENTS}/{first.json()['id']}/cancel", headers=ours)
        again = await client.post(EXPERIMENTS, headers=ours, json=document | {"name": "second"})
        assert again.status_code == 201, "what has ended counts no more"


async def test_the_same_manifest_belongs_to_whoever_was_first(guarded: Guarded, document: dict[str, Any]) -> None:
    ours, theirs = guarded.headers(OURS, Scope.SUBMIT), guarded.headers(THEIRS, Scope.SUBMIT)
    first = await guarded.client.post(EXPERIMENTS, headers=ours, json=document)
    assert first.status_code == 201, first.text
    refused = await guarded.client.post(EXPERIMENTS, headers=theirs, json=document)
    assert "another name" in str(check_shape(refused, 409)["problems"])
    renamed = await guarded.client.post(EXPERIMENTS, headers=theirs, json=document | {"name": "ours-too"})
    assert renamed.status_code == 201
    listed = (await guarded.client.get(EXPERIMENTS, headers=theirs)).json()["items"]
    assert [experiment["name"] for experiment in listed] == ["ours-too"]


async def test_who_submitted_and_cancelled_is_in_the_audit_log(guarded: Guarded, document: dict[str, Any]) -> None:
    ours = guarded.headers(OURS, Scope.SUBMIT)
    experiment = (await guarded.client.post(EXPERIMENTS, headers=ours, json=document)).json()["id"]
    await guarded.client.post(f"{EXPERIMENTS}/{experiment}/cancel", headers=ours)
    await guarded.client.delete(f"{EXPERIMENTS}/{experiment}", headers=guarded.headers(THEIRS, Scope.ADMIN))
    events = (await guarded.client.get("/api/v1/audit", headers=guarded.headers(OURS, Scope.ADMIN))).json()["items"]
    newest = [(e["action"], e["actor"]) for e in events if e["target"] == experiment][:3]
    assert newest == [
        ("experiment.delete", "token:beta-admin"),
        ("experiment.cancel", "token:alpha-submit"),
        ("experiment.submit", "token:alpha-submit"),
    ]


async def test_what_an_administrator_submits_others_of_the_project_can_read(
    guarded: Guarded, document: dict[str, Any]
) -> None:
    """Though nobody of the project has uploaded its trace; who is no administrator cannot use a trace unseen."""
    await guarded.access.create_project("gamma")
    made = {
        scope: (await guarded.access.create_token(TokenWish(name=f"g-{scope}", project="gamma", scope=scope))).token
        for scope in (Scope.SUBMIT, Scope.ADMIN)
    }
    blind = await guarded.client.post(EXPERIMENTS, headers=bearer(made[Scope.SUBMIT]), json=document)
    assert "trace" in str(check_shape(blind, 422)["problems"])
    answer = await guarded.client.post(EXPERIMENTS, headers=bearer(made[Scope.ADMIN]), json=document)
    assert answer.status_code == 201, answer.text
    traces = (await guarded.client.get("/api/v1/traces", headers=bearer(made[Scope.SUBMIT]))).json()
    assert [trace["digest"] for trace in traces] == [document["workloads"][0]["trace"]]
