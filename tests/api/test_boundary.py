"""The edge: limits before buffering, foreign hosts, one error shape on every path, headers on every answer."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.boundary import BODY_MAX, HEADERS
from app.errors import Problem
from app.main import create_app
from app.settings import Settings

EXPERIMENTS = "/api/v1/experiments"
UNKNOWN = "00000000-0000-0000-0000-000000000000"


def check_shape(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate_json(answer.content)
    assert problem.status == status
    assert problem.instance == answer.request.url.path
    assert all(item.field and item.message and item.remedy for item in problem.problems)
    assert problem.problems
    return answer.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nowhere", 404),
        ("DELETE", EXPERIMENTS, 405),
        ("GET", f"{EXPERIMENTS}?limit=0", 422),
        ("GET", f"{EXPERIMENTS}?limit=x", 422),
        ("GET", f"{EXPERIMENTS}?cursor=x", 422),
        ("GET", f"{EXPERIMENTS}?cursor={'0' * 64}", 404),
        *(
            ("GET", f"{EXPERIMENTS}/{'0' * 64}{tail}", 404)
            for tail in ("", "/manifest", "/runs", "/sessions", "/events")
        ),
        *(("GET", f"{EXPERIMENTS}/{'0' * 64}{tail}", 404) for tail in ("/report", "/figures", "/figures/x", "/bundle")),
        ("POST", f"{EXPERIMENTS}/{'0' * 64}/cancel", 404),
        ("GET", f"{EXPERIMENTS}/%00%00%00%00%00%00%00%00%00%00%00%00", 404),
        ("GET", "/api/v1/runs/nonsense", 422),
        *(("GET", f"/api/v1/runs/{UNKNOWN}{tail}", 404) for tail in ("", "/observations", "/series")),
        ("GET", f"/api/v1/runs/{UNKNOWN}/observations?cursor=%00", 422),
        ("GET", f"/api/v1/sessions/{UNKNOWN}/log", 404),
    ],
)
async def test_one_error_shape_on_every_path(client: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    check_shape(await client.request(method, path), status)


@pytest.mark.parametrize(
    ("content", "media_type", "message"),
    [
        (b"", "application/json", "not valid JSON"),
        (b"{", "application/json", "not valid JSON"),
        (b'{"name":"a","name":"b"}', "application/json", "occurs twice"),
        (b'{"blocks":NaN}', "application/json", "NaN"),
        (b'{"blocks":1e999}', "application/json", "not finite"),
        (b'{"blocks":1' + b"0" * 5000 + b"}", "application/json", "not valid JSON"),
        (b'{"a":' * 10_000, "application/json", "nested deeper"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "application/json", "nested deeper"),
        (b"[1, 2]", "application/json", "valid dictionary"),
        (b"a: &x 1\nb: *x\n", "application/yaml", "aliases"),
        (b"a: 1\na: 2\n", "application/yaml", "occurs twice"),
        (b"a: .nan\n", "application/yaml", "not finite"),
        (b"a: 2026-01-01\n", "application/yaml", "quote it"),
        (b"!!python/object/apply:os.system ['true']\n", "application/yaml", "not valid YAML"),
        (b"a: [\n", "application/yaml", "not valid YAML"),
        (b"? [a]\n: 1\n", "application/yaml", "not valid YAML"),
    ],
)
async def test_a_malformed_document_is_refused_in_words(
    client: httpx.AsyncClient, content: bytes, media_type: str, message: str
) -> None:
    answer = await client.post(EXPERIMENTS, content=content, headers={"content-type": media_type})
    assert message in check_shape(answer, 422)["detail"]


async def test_other_media_types_and_encodings_are_refused(client: httpx.AsyncClient) -> None:
    xml = await client.post(EXPERIMENTS, content=b"<a/>", headers={"content-type": "text/xml"})
    check_shape(xml, 415)
    check_shape(await client.post("/api/v1/traces", content=b"{}"), 415)
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    check_shape(await client.post(EXPERIMENTS, content=b"\x1f\x8b", headers=packed), 415)


async def test_a_declared_length_over_the_limit_is_refused(client: httpx.AsyncClient) -> None:
    check_shape(await client.post(EXPERIMENTS, content=b" " * (BODY_MAX + 1)), 413)
    assert (await client.post(EXPERIMENTS, content=b" " * BODY_MAX)).status_code == 422


async def test_an_undeclared_body_is_cut_off_at_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * BODY_MAX:
            sent += 1 << 16
            yield b" " * (1 << 16)

    for path in (EXPERIMENTS, "/experiments/new"):
        sent = 0
        answer = await client.post(path, content=endless(), headers={"content-type": "application/json"})
        if path == EXPERIMENTS:
            check_shape(answer, 413)
        assert sent <= BODY_MAX + (1 << 17)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8400", "127.0.0.1.evil.example", "", "[::2]:8400"])
async def test_a_foreign_host_is_refused(client: httpx.AsyncClient, host: str) -> None:
    check_shape(await client.get("/healthz", headers={"host": host}), 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8400", "LOCALHOST", "[::1]:8400"])
async def test_loopback_names_are_ours(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/healthz", headers={"host": host})).json() == {"status": "ok"}


async def test_a_foreign_origin_cannot_change_anything(client: httpx.AsyncClient) -> None:
    answer = await client.post(EXPERIMENTS, json={}, headers={"origin": "http://evil.example"})
    check_shape(answer, 403)
    own = await client.post(EXPERIMENTS, json={}, headers={"origin": "http://127.0.0.1:8400"})
    check_shape(own, 422)


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/api/v1/nowhere", "/static/app.css", "/"])
async def test_every_answer_carries_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert all(name in answer.headers for name in HEADERS)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert len(answer.headers["x-request-id"]) == 32


async def test_a_fault_of_ours_is_opaque(settings: Settings) -> None:
    nowhere = SecretStr("postgresql+psycopg://secret-user@127.0.0.1:1/none")
    transport = httpx.ASGITransport(create_app(settings.model_copy(update={"database_url": nowhere})))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/healthz")
    problem = check_shape(answer, 500)
    assert answer.headers["x-request-id"] in problem["detail"]
    assert "secret-user" not in answer.text
    assert "Traceback" not in answer.text


async def test_openapi_describes_every_error_by_the_one_shape(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert "Problem" in document["components"]["schemas"]
    post = document["paths"][EXPERIMENTS]["post"]
    assert {"200", "201", "413", "415", "422"} <= set(post["responses"])
    assert post["requestBody"]["content"]["application/json"]["examples"]
