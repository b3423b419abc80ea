"""The operations page's form: who may send it, what it refuses, and what it shows of strangers' words."""

import re

import httpx
import pytest

from app.db.session import Database
from app.domain.vocabulary import FailureClass
from app.operations.schemas import FailureCount, FailureLevel
from app.pages.guard import COOKIE
from app.pages.operations import NO_REASON, failure_table
from app.pages.wording import size
from tests.factories_operations import Floor, busy_floor

FORM = "/operations/accelerator?host=gpu1&name=GPU-cccc"
RELEASE = {"state": "FREE", "reason": "it was looked at"}
HERE = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def floor(database: Database) -> Floor:
    return await busy_floor(database)


async def token(client: httpx.AsyncClient) -> str:
    """The form's token, with the browser's cookie in ``client``."""
    page = await client.get(FORM)
    found = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert found is not None
    assert client.cookies[COOKIE] == found[1]
    return found[1]


async def state(client: httpx.AsyncClient) -> str:
    listed = (await client.get("/api/v1/accelerators")).json()
    return {a["name"]: a["state"] for a in listed}["GPU-cccc"]


async def test_a_form_of_ours_changes_the_accelerator(floor: Floor, client: httpx.AsyncClient) -> None:
    sent = await client.post(FORM, data=RELEASE | {"form_token": await token(client)}, headers=HERE)
    assert (sent.status_code, sent.headers["location"]) == (303, "/operations")
    assert await state(client) == "FREE"


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {}])
async def test_a_form_of_another_site_changes_nothing(
    floor: Floor, client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    sent = await client.post(FORM, data=RELEASE | {"form_token": await token(client)}, headers=headers)
    assert sent.status_code == 403
    assert await state(client) == "QUARANTINED"


async def test_a_form_without_the_token_changes_nothing(floor: Floor, client: httpx.AsyncClient) -> None:
    await token(client)
    sent = await client.post(FORM, data=RELEASE | {"form_token": "A" * 43}, headers=HERE)
    assert sent.status_code == 403
    assert await state(client) == "QUARANTINED"


async def test_a_blank_reason_is_asked_for_again(floor: Floor, client: httpx.AsyncClient) -> None:
    sent = await client.post(
        FORM, data={"state": "FREE", "reason": "  ", "form_token": await token(client)}, headers=HERE
    )
    assert sent.status_code == 422
    assert NO_REASON in sent.text
    assert 'aria-invalid="true"' in sent.text
    assert await state(client) == "QUARANTINED"


async def test_what_changed_meanwhile_is_told_as_a_page(floor: Floor, client: httpx.AsyncClient) -> None:
    sent = {"form_token": await token(client)} | RELEASE
    await client.post("/api/v1/accelerators/gpu1/GPU-cccc/release", json={"reason": "quicker"})
    late = await client.post(FORM, data=sent, headers=HERE)
    assert late.status_code == 409
    assert "is FREE, not in quarantine" in late.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/operations/accelerator?host=gpu1&name=none", 404),
        ("/operations/accelerator?host=gpu1", 422),
        ("/operations/accelerator?host=gpu1&name=GPU-cccc&x=1", 422),
    ],
)
async def test_an_address_that_names_none_is_an_error_page(
    floor: Floor, client: httpx.AsyncClient, path: str, status: int
) -> None:
    answer = await client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")


async def test_words_of_others_are_escaped_and_their_control_characters_gone(
    floor: Floor, client: httpx.AsyncClient
) -> None:
    await floor.publish("evil<i>", names=("GPU-\u202eeeee",), idle="<script>alert(1)</script>\x1b[31m")
    await floor.quarantine("evil<i>", "GPU-\u202eeeee", "<img src=x>")
    for path in ("/operations", "/operations/live"):
        text = (await client.get(path)).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "<i>" not in text
        assert "&lt;b&gt;80 GiB&lt;/b&gt;" in text
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_failures_are_a_row_for_each_class_with_its_levels() -> None:
    def count(level: FailureLevel, word: FailureClass) -> FailureCount:
        return FailureCount(level=level, failure_class=word, last_day=1, in_all=2)

    oom, hang = count(FailureLevel.RUN, FailureClass.OOM), count(FailureLevel.BLOCK, FailureClass.HANG)
    assert failure_table([oom, hang]) == {"HANG": {"block": hang}, "OOM": {"run": oom}}


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (8_290_000, "8.29 MB"), (12_400_000_000, "12.4 GB"), (10**16, "10,000 TB")],
)
def test_sizes_have_a_unit_of_their_size(count: int, words: str) -> None:
    assert size(count) == words
