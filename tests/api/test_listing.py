"""The list of experiments over the API: search, filters, order, pages, tags and the archive."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.db.session import Database
from app.experiments.repository import ExperimentRepository
from app.settings import Settings
from tests.browser.story import Story, tell
from tests.factories import BASELINE, make_manifest

EXPERIMENTS = "/api/v1/experiments"
SUFFIX = {"name": "suffix-k8", "speculation": {"method": "suffix", "num_speculative_tokens": 8}}


async def add(database: Database, *names: str, owner: str = "local", **keywords: Any) -> list[str]:
    """Registered in this order, one transaction each, so that their times differ."""
    digests: list[str] = []
    for name in names:
        manifest = make_manifest(name=name, **keywords)
        async with database.transaction() as session:
            await ExperimentRepository(session).add(manifest, owner)
        digests.append(manifest.digest)
    return digests


async def names(client: httpx.AsyncClient, **search: Any) -> list[str]:
    answer = await client.get(EXPERIMENTS, params=search)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("newest", "c a b"), ("oldest", "b a c"), ("name", "a b c"), ("ended", None)],
)
async def test_pages_forth_and_back_show_each_once_in_order(
    client: httpx.AsyncClient, database: Database, sort: str, expected: str | None
) -> None:
    await add(database, "b", "a", "c")
    seen: list[str] = []
    pages: list[Sequence[str]] = []
    cursor: str | None = None
    while True:
        params = {"sort": sort, "limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(EXPERIMENTS, params=params)).json()
        pages.append([item["name"] for item in page["items"]])
        seen += pages[-1]
        assert page["total"] == 3
        if page["next_cursor"] is None:
            break
        cursor = page["next_cursor"]
    assert sorted(seen) == ["a", "b", "c"]
    assert expected is None or seen == expected.split()
    before = (
        await client.get(EXPERIMENTS, params={"sort": sort, "limit": 1, "before": page["previous_cursor"]})
    ).json()
    assert [item["name"] for item in before["items"]] == pages[1]
    first = (
        await client.get(EXPERIMENTS, params={"sort": sort, "limit": 1, "before": before["previous_cursor"]})
    ).json()
    assert [item["name"] for item in first["items"]] == pages[0]
    assert first["previous_cursor"] is None


async def test_each_word_of_a_search_must_be_found(client: httpx.AsyncClient, database: Database) -> None:
    (chat,) = await add(database, "chat-eu", owner="ann")
    await add(database, "chat-us", owner="bob", arms=[BASELINE, SUFFIX])
    assert await names(client, q="chat") == ["chat-us", "chat-eu"]
    assert await names(client, q="CHAT ann") == ["chat-eu"]
    assert await names(client, q="suffix") == ["chat-us"]
    assert await names(client, q=chat[:12]) == ["chat-eu"]
    assert await names(client, q="tiny-target") == ["chat-us", "chat-eu"]
    assert await names(client, q="100%") == []
    assert await names(client, q="tiny_target") == []
    assert await names(client, owner="bob") == ["chat-us"]
    assert await names(client, state="QUEUED", q="us") == ["chat-us"]
    assert await names(client, state="FINISHED") == []


async def test_tags_find_an_experiment_and_are_no_part_of_it(client: httpx.AsyncClient, database: Database) -> None:
    digest, _ = await add(database, "a", "b")
    answer = await client.patch(f"{EXPERIMENTS}/{digest[:12]}", json={"tags": ["prod", "h200", "prod"]})
    assert (answer.status_code, answer.json()["tags"]) == (200, ["h200", "prod"])
    assert answer.json()["id"] == digest
    assert await names(client, tag="prod") == ["a"]
    assert await names(client, q="h200") == ["a"]
    assert await names(client, tag="pro") == []
    again = (await client.patch(f"{EXPERIMENTS}/{digest}", json={"tags": ["h200", "prod"]})).json()
    assert again["version"] == answer.json()["version"]
    cleared = (await client.patch(f"{EXPERIMENTS}/{digest}", json={"tags": []})).json()
    assert (cleared["tags"], cleared["archived"]) == ([], False)
    assert cleared["version"] == answer.json()["version"] + 1


async def test_what_is_archived_is_hidden_not_gone(client: httpx.AsyncClient, database: Database) -> None:
    digest, _ = await add(database, "a", "b")
    await client.patch(f"{EXPERIMENTS}/{digest}", json={"archived": True})
    assert await names(client) == ["b"]
    assert await names(client, archived="only") == ["a"]
    assert await names(client, archived="shown") == ["b", "a"]
    one = (await client.get(f"{EXPERIMENTS}/{digest}")).json()
    assert (one["archived"], one["state"]) == (True, "QUEUED")
    await client.patch(f"{EXPERIMENTS}/{digest}", json={"archived": False})
    assert await names(client) == ["b", "a"]


@pytest.mark.parametrize(
    "wish",
    [
        {"tags": ["Prod"]},
        {"tags": [""]},
        {"tags": ["a" * 41]},
        {"tags": ["<b>"]},
        {"tags": ["a\x00"]},
        {"tags": [f"t{n}" for n in range(17)]},
        {"archived": "perhaps"},
        {"name": "other"},
    ],
)
async def test_a_wrong_tag_changes_nothing(client: httpx.AsyncClient, database: Database, wish: dict[str, Any]) -> None:
    (digest,) = await add(database, "a")
    answer = await client.patch(f"{EXPERIMENTS}/{digest}", json=wish)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["problems"][0]["field"].startswith("body.")
    one = (await client.get(f"{EXPERIMENTS}/{digest}")).json()
    assert (one["tags"], one["version"]) == ([], 1)


@pytest.mark.parametrize(
    "search",
    [
        {"state": "over"},
        {"word": "GOOD"},
        {"tag": "A"},
        {"sort": "x"},
        {"colour": "red"},
        {"q": "a\x00"},
        {"cursor": "f"},
    ],
)
async def test_a_search_that_is_not_understood_is_refused(client: httpx.AsyncClient, search: dict[str, str]) -> None:
    answer = await client.get(EXPERIMENTS, params=search)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_cursor_to_nothing_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get(EXPERIMENTS, params={"cursor": "f" * 64})).status_code == 404


async def test_tags_of_nothing_are_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.patch(f"{EXPERIMENTS}/{'f' * 64}", json={"archived": True})).status_code == 404


async def test_verdicts_are_found_once_the_report_was_asked_for_and_only_while_they_hold(
    client: httpx.AsyncClient, database: Database, settings: Settings
) -> None:
    manifest = await tell(database, Story(blocks=2, planned=2), settings.artifact_root)
    word = (await client.get(f"{EXPERIMENTS}/{manifest.digest}/report")).json()["verdicts"][0]["word"]
    unknown = (await client.get(EXPERIMENTS, params={"word": word})).json()
    assert (unknown["items"], unknown["unweighed"]) == ([], 1)
    await client.get("/", params={"word": word})
    known = (await client.get(EXPERIMENTS, params={"word": word})).json()
    assert (known["total"], known["unweighed"]) == (1, 0)
    (item,) = known["items"]
    assert sum(v["count"] for v in item["verdicts"]) == 8
    assert {v["word"] for v in item["verdicts"]} >= {word}
    async with database.transaction() as session:
        await session.execute(text("""UPDATE report SET glance = jsonb_set(glance, '{analysis}', '"0.0"')"""))
    stale = (await client.get(EXPERIMENTS, params={"word": word})).json()
    assert (stale["items"], stale["unweighed"]) == ([], 1)
    assert (await client.get(f"{EXPERIMENTS}/{manifest.digest}")).json()["verdicts"] is None
