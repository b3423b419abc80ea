"""Secrets and private prompts are sent through the whole service; then everything that it kept is searched for them."""

import logging
from pathlib import Path

import httpx
import psycopg
import pytest
import redis
from psycopg import sql
from pydantic import SecretStr

from app.access.gate import LOGIN_COOKIE
from app.access.schemas import AccountWish, TokenWish
from app.access.service import AccessService
from app.db.session import Database
from app.domain.access import Scope
from app.domain.trace import parse_trace
from app.evidence.packing import unpack_lines
from app.main import create_app
from app.settings import Settings
from tests.access.conftest import bearer
from tests.access.test_login import log_in
from tests.conftest import client_of, libpq_url
from tests.factories import make_manifest
from tests.workloads.test_privacy import CANARY, private_import

PASSWORD = "canary-password-8150"
GUESS = "canary-guess-2342"
REFUSED = "canary-of-a-refused-line"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"


def dumped(url: str) -> bytes:
    """Every row of every table: as text, and what is bytes as itself, unpacked where it is zstd."""
    found: list[bytes] = []
    with psycopg.connect(libpq_url(url)) as connection:
        for (table,) in connection.execute(TABLES).fetchall():
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))):
                found += [value if isinstance(value, bytes) else str(value).encode() for value in row]
        for (body,) in connection.execute("SELECT body FROM trace").fetchall():
            found += map(bytes, unpack_lines(bytes(body)))
    return b"\n".join(found)


@pytest.mark.parametrize("kept", [True, False], ids=["found where it is kept", "nowhere else"])
async def test_neither_secrets_nor_private_prompts_are_anywhere(
    settings: Settings,
    database: Database,
    redis_url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    kept: bool,
) -> None:
    required = settings.model_copy(update={"access": "required", "redis_url": SecretStr(redis_url)})
    access = AccessService(database)
    token = (await access.create_token(TokenWish(name="canary", scope=Scope.SUBMIT))).token
    await access.set_account(AccountWish(name="ada", password=SecretStr(PASSWORD)))
    folder = tmp_path / "private"
    folder.mkdir()
    trace, prompts = private_import(folder)
    with caplog.at_level(logging.DEBUG):
        async with client_of(create_app(required), required) as client:
            login = await _everything(client, token, trace)
    if kept:  # the search finds what is there: the trace's own name, and the prompt file that only workers read
        assert parse_trace(trace).header.name.encode() in dumped(required.database_url.get_secret_value())
        assert CANARY.encode() in prompts
        return
    broker = redis.Redis.from_url(redis_url.partition("?")[0].replace("redis+socket", "unix"))
    places = {
        "database": dumped(required.database_url.get_secret_value()),
        "log": caplog.text.encode(),
        "files": b"".join(path.read_bytes() for path in required.home.rglob("*") if path.is_file()),
        "redis": b"".join(broker.dump(key) or b"" for key in broker.keys("*")),
    }
    secrets = {
        "token": token.rpartition("_")[2][-30:],
        "password": PASSWORD,
        "guess": GUESS,
        "login": login,
        "prompt": CANARY,
        "refused line": REFUSED,
    }
    leaks = [
        (what, place) for what, secret in secrets.items() for place, all_ in places.items() if secret.encode() in all_
    ]
    assert leaks == []


async def _everything(client: httpx.AsyncClient, token: str, trace: bytes) -> str:
    """What goes well and what does not; returns the browser's login."""
    lines = {**bearer(token), "content-type": "application/jsonl"}
    assert (await client.post("/api/v1/traces", content=trace, headers=lines)).status_code == 201
    broken = trace + b'{"id": "' + REFUSED.encode() + b'", "prompt": "' + REFUSED.encode() + b'"}\n'
    assert (await client.post("/api/v1/traces", content=broken, headers=lines)).status_code == 422
    digest = parse_trace(trace).digest
    manifest = make_manifest(traces={"tasks": digest}).model_dump(mode="json")
    for body in (manifest, {"name": token}):
        await client.post("/api/v1/experiments", json=body, headers=bearer(token))
    assert (await client.get("/api/v1/experiments", headers=bearer(f"{token[:-1]}x"))).status_code == 401
    assert (await client.get(f"/api/v1/experiments?token={token}")).status_code == 400
    assert (await log_in(client, GUESS)).status_code == 401
    assert (await log_in(client, PASSWORD)).status_code == 303
    login = client.cookies[LOGIN_COOKIE]
    assert (await client.get("/")).status_code == 200
    return login
