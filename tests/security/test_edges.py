"""Items of the checklist that no other place tests."""

import json
import re

import httpx
import kombu.serialization
import pytest
from kombu.exceptions import ContentDisallowed

from app.domain.access import Scope
from app.settings import Settings
from tests.access.conftest import OURS, Guarded
from worker.celery_app import celery


def test_the_broker_takes_json_and_no_pickle() -> None:
    assert celery.conf.accept_content == ["json"]
    assert celery.conf.task_serializer == "json"
    with pytest.raises(ContentDisallowed):
        kombu.serialization.loads(b"", "application/x-python-serialize", "binary", accept=["application/json"])


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app/main.py",
        "/static/%2e%2e/app/main.py",
        "/static/..%2fapp%2fmain.py",
        "/static//etc/passwd",
        "/api/v1/sessions/..%2f..%2fetc%2fpasswd/log",
        "/api/v1/schemas/..%2f..%2fetc%2fpasswd",
    ],
)
async def test_no_address_leads_out_of_what_is_served(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code in {404, 422}
    assert "root:" not in answer.text
    assert "create_app" not in answer.text


async def test_what_describes_the_api_has_no_secret(client: httpx.AsyncClient, settings: Settings) -> None:
    text = (await client.get("/openapi.json")).text
    assert settings.database_url.get_secret_value() not in text
    assert str(settings.home) not in text
    for path in ("/docs", "/redoc"):
        assert (await client.get(path)).status_code == 404


async def test_every_operation_says_which_credential_it_wants(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    public = {"/healthz"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert path in public or any("token" in wanted for wanted in operation["security"]), (method, path)
            assert path in public or {"401", "429"} <= operation["responses"].keys(), (method, path)


async def test_no_answer_repeats_a_token_that_was_sent_in_its_body(guarded: Guarded) -> None:
    token = guarded.tokens[OURS, Scope.SUBMIT]
    answer = await guarded.client.post(
        "/api/v1/experiments", headers=guarded.headers(OURS, Scope.SUBMIT), content=json.dumps({"name": 1})
    )
    assert not re.search(re.escape(token[17:]), answer.text)
