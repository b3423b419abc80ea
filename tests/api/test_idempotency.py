"""The same request with the same key is done once and answered alike; another request with it is refused (C3 27)."""

import asyncio
from typing import Any

import httpx
import psycopg
import pytest

from app.db.session import Database
from app.delivery.repository import AnswerRepository, Claim
from app.delivery.wishes import UNDER_WAY_S
from app.main import create_app
from app.settings import Settings
from tests.api.test_boundary import check_shape
from tests.api.test_experiments import EXPERIMENTS, upload
from tests.conftest import client_of, libpq_url
from tests.factories import manifest_document

WEBHOOKS = "/api/v1/webhooks"
TARGET = {"url": "https://ci.example.org/verdraft"}


def keyed(key: str = "one") -> dict[str, str]:
    return {"Idempotency-Key": key}


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    return manifest_document(traces={"tasks": await upload(client)})


async def test_the_same_request_has_the_same_answer(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    first = await client.post(EXPERIMENTS, json=document, headers=keyed())
    again = await client.post(EXPERIMENTS, json=document, headers=keyed())
    assert (first.status_code, again.status_code) == (201, 201)  # without a key the second is 200
    assert first.content == again.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert (await client.post(EXPERIMENTS, json=document)).status_code == 200


@pytest.mark.parametrize("changed", ["body", "query", "path", "media type"])
async def test_another_request_with_the_key_is_refused(
    client: httpx.AsyncClient, document: dict[str, Any], changed: str
) -> None:
    assert (await client.post(EXPERIMENTS, json=document, headers=keyed())).status_code == 201
    path, headers = EXPERIMENTS, keyed()
    content = httpx.Request("POST", "http://x", json=document).content
    match changed:
        case "body":
            content += b" "
        case "query":
            path += "?owner=other"
        case "path":
            path = "/api/v1/preflight"
        case _:
            headers["content-type"] = "application/yaml"
    headers.setdefault("content-type", "application/json")
    problem = check_shape(await client.post(path, content=content, headers=headers), 409)
    assert problem["problems"][0]["field"] == "header.Idempotency-Key"


async def test_what_was_refused_was_not_done_and_leaves_the_key_free(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    assert (await client.post(EXPERIMENTS, json={"name": "x"}, headers=keyed())).status_code == 422
    assert (await client.post(EXPERIMENTS, json=document, headers=keyed())).status_code == 201


@pytest.mark.parametrize("key", ["", " ", "a" * 256, "a b", "\u00e9".encode("latin-1")])
async def test_a_key_that_is_no_key_is_refused_before_anything_is_done(
    client: httpx.AsyncClient, document: dict[str, Any], key: str | bytes
) -> None:
    raw = key if isinstance(key, bytes) else key.encode()
    check_shape(await client.post(EXPERIMENTS, json=document, headers=[(b"Idempotency-Key", raw)]), 422)
    assert (await client.get(EXPERIMENTS)).json()["items"] == []


async def test_a_secret_is_shown_once_and_kept_nowhere(client: httpx.AsyncClient, settings: Settings) -> None:
    made = await client.post(WEBHOOKS, json=TARGET, headers=keyed())
    assert made.status_code == 201
    check_shape(await client.post(WEBHOOKS, json=TARGET, headers=keyed()), 409)
    assert len((await client.get(WEBHOOKS)).json()) == 1
    with psycopg.connect(libpq_url(settings.database_url.get_secret_value())) as connection:
        kept = connection.execute("SELECT status, body FROM kept_answer").fetchall()
    assert kept == [(201, None)]


async def test_of_two_at_once_one_is_done(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.post(WEBHOOKS, json=TARGET, headers=keyed()) for _ in range(6)))
    assert sorted(a.status_code for a in answers) == [201, *[409] * 5]
    assert len((await client.get(WEBHOOKS)).json()) == 1


async def test_another_process_gives_the_kept_answer(
    client: httpx.AsyncClient, settings: Settings, document: dict[str, Any]
) -> None:
    first = await client.post(EXPERIMENTS, json=document, headers=keyed())
    async with client_of(create_app(settings), settings) as other:
        again = await other.post(EXPERIMENTS, json=document, headers=keyed())
    assert again.content == first.content
    assert again.status_code == 201


async def test_keys_of_one_are_no_keys_of_another_and_end_after_their_time(database: Database) -> None:
    async def claim(claim: Claim, *, hours: float = 1.0, under_way_s: float = UNDER_WAY_S) -> bool:
        async with database.transaction() as session:
            return await AnswerRepository(session).claim(claim, hours, under_way_s) is None

    mine, other = (Claim(who, "one", b"x", keep_body=True) for who in ("a", "b"))
    assert await claim(mine)
    assert not await claim(mine)
    assert await claim(other)
    assert await claim(mine, under_way_s=-1)  # whoever held it died
    assert not await claim(mine)
    brief = Claim("a", "two", b"x", keep_body=True)
    assert await claim(brief, hours=-1)
    assert await claim(brief)


async def test_a_request_that_fails_here_frees_its_key(
    client: httpx.AsyncClient, settings: Settings, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr("app.experiments.routes.parse_manifest", broken)
        check_shape(await client.post(EXPERIMENTS, json=document, headers=keyed()), 500)
    assert (await client.post(EXPERIMENTS, json=document, headers=keyed())).status_code == 201
