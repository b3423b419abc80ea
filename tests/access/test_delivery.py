"""Webhooks and idempotency keys of one project are none of another's."""

import httpx
from sqlalchemy import text

from app.access.service import AccessService
from app.db.session import Database
from app.domain.access import Scope
from app.webhooks.repository import WebhookRepository
from tests.access.conftest import OURS, THEIRS, Guarded
from tests.factories import make_trace

WEBHOOKS = "/api/v1/webhooks"
TARGET = {"url": "https://ci.invalid.example.org/hook"}
JSONL = {"content-type": "application/jsonl"}


async def test_a_webhook_of_another_project_does_not_exist(guarded: Guarded) -> None:
    ours, theirs = (guarded.headers(project, Scope.SUBMIT) for project in (OURS, THEIRS))
    made = (await guarded.client.post(WEBHOOKS, json=TARGET, headers=ours)).json()
    one = f"{WEBHOOKS}/{made['id']}"
    assert (await guarded.client.get(WEBHOOKS, headers=theirs)).json() == []
    asked: list[httpx.Response] = [
        await guarded.client.request(method, f"{one}{tail}", headers=theirs)
        for method, tail in (
            ("GET", ""),
            ("GET", "/deliveries"),
            ("POST", "/ping"),
            ("POST", "/enable"),
            ("DELETE", ""),
        )
    ]
    assert {answer.status_code for answer in asked} == {404}
    assert (await guarded.client.get(one, headers=ours)).status_code == 200


async def test_who_may_only_read_makes_no_webhook(guarded: Guarded) -> None:
    assert (await guarded.client.post(WEBHOOKS, json=TARGET, headers=guarded.headers(OURS))).status_code == 403
    assert (await guarded.client.post(WEBHOOKS, json=TARGET)).status_code == 401


async def test_only_experiments_of_the_project_are_told(guarded: Guarded, database: Database) -> None:
    for project in (OURS, THEIRS):
        await guarded.client.post(WEBHOOKS, json=TARGET, headers=guarded.headers(project, Scope.SUBMIT))
    async with database.transaction() as session:
        await session.execute(
            text(
                "INSERT INTO experiment (digest, name, state, manifest, project, version, finished_at)"
                " VALUES (repeat('a', 64), 'x', 'CANCELED', '{}', :project, 1, now() + interval '1 second')"
            ),
            {"project": OURS},
        )
        await WebhookRepository(session).note_ends(1)
    async with database.reader() as session:
        told = await session.execute(
            text("SELECT w.project FROM webhook_delivery d JOIN webhook w ON w.id = d.webhook_id")
        )
        assert [project for (project,) in told] == [OURS]


async def test_a_key_of_one_is_no_key_of_another_and_a_revoked_token_gets_nothing_kept(guarded: Guarded) -> None:
    body, key = make_trace().encode(), {"Idempotency-Key": "one", **JSONL}
    ours, theirs = ({**key, **guarded.headers(project, Scope.SUBMIT)} for project in (OURS, THEIRS))
    first = await guarded.client.post("/api/v1/traces", content=body, headers=ours)
    assert first.status_code in {200, 201}
    again = await guarded.client.post("/api/v1/traces", content=body, headers=ours)
    assert again.headers["idempotency-replayed"] == "true"
    other = await guarded.client.post("/api/v1/traces", content=body, headers=theirs)
    assert "idempotency-replayed" not in other.headers
    access: AccessService = guarded.access
    tokens = {token.name: token.id for token in await access.tokens()}
    await access.revoke(tokens[f"{OURS}-{Scope.SUBMIT}"])
    assert (await guarded.client.post("/api/v1/traces", content=body, headers=ours)).status_code == 401
