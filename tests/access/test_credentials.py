"""Who comes in: tokens, their scopes, their end; and nobody else, on any route."""

import logging
import re
import time
from statistics import median

import httpx
import psycopg
import pytest

from app.access.gate import PUBLIC, declared, require_declared
from app.access.schemas import TokenWish
from app.boundary import AccessRefused
from app.domain.access import LOCAL, Principal, Scope, digest_of
from app.main import create_app
from app.settings import Settings
from tests.access.conftest import OURS, THEIRS, Guarded, bearer
from tests.api.test_boundary import check_shape
from tests.conftest import libpq_url

EXPERIMENTS = "/api/v1/experiments"
ROUTES = [(path, methods, scopes) for path, methods, scopes in declared(create_app()) if methods]
ASKS_ONLY = {
    "/api/v1/preflight",
    "/experiments/new/check",
    "/experiments/new/live",
    "/workloads/new/preview",
    "/login",
    "/logout",
}
"""They are posted to and change nothing of a project."""


def filled(path: str) -> str:
    """Any value for each parameter: who may not come in is refused before they are looked at."""
    return re.sub(r"{\w+(?::\w+)?}", "0" * 64, path)


# Every route


@pytest.mark.parametrize(
    ("path", "methods", "scopes"), ROUTES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_route_declares_its_scope(path: str, methods: frozenset[str], scopes: tuple[Scope, ...]) -> None:
    assert scopes or path in PUBLIC
    if not methods <= {"GET", "HEAD"} and path not in ASKS_ONLY:
        assert {Scope.SUBMIT, Scope.ADMIN} & set(scopes), "it changes something, so `read` is not enough"


def test_an_application_with_a_silent_route_does_not_start() -> None:
    app = create_app()
    app.add_api_route("/api/v1/forgotten", lambda: None)
    with pytest.raises(RuntimeError, match="/api/v1/forgotten"):
        require_declared(app)


async def test_nobody_is_let_in_without_a_credential(guarded: Guarded) -> None:
    for path, methods, scopes in ROUTES:
        for method in methods if scopes else ():
            answer = await guarded.client.request(method, filled(path), headers={"hx-request": "true"})
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.headers["www-authenticate"] == 'Bearer realm="Verdraft"'


async def test_a_read_token_changes_nothing(guarded: Guarded) -> None:
    headers = guarded.headers(OURS)
    for path, methods, scopes in ROUTES:
        for method in methods if set(scopes) - {Scope.READ} else ():
            answer = await guarded.client.request(method, filled(path), headers=headers, json={"reason": "x"})
            assert answer.status_code in {403, 422}, (method, path, answer.text)
            if answer.status_code == 422:  # a body is looked at before anybody is asked who they are
                assert "name" in answer.text


async def test_a_submit_token_is_no_administrator(guarded: Guarded) -> None:
    headers = guarded.headers(OURS, Scope.SUBMIT)
    refused = check_shape(await guarded.client.get("/api/v1/tokens", headers=headers), 403)
    assert "this needs admin" in refused["detail"]
    assert (await guarded.client.delete(f"{EXPERIMENTS}/{'0' * 64}", headers=headers)).status_code == 403
    assert (await guarded.client.post(f"{EXPERIMENTS}/{'0' * 64}/cancel", headers=headers)).status_code == 404


async def test_public_pages_need_nothing(guarded: Guarded) -> None:
    for path in PUBLIC - {"/logout"}:
        assert (await guarded.client.get(path)).status_code == 200


# Tokens


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "x",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer vdt_000000000000_" + "A" * 43,
        "Bearer vdt_000000000000_" + "A" * 42,
        "Bearer " + "A" * 5000,
        "Bearer vdt_00000000000\x01_" + "A" * 43,
        "bearer 'or 1=1 --",
    ],
)
async def test_what_is_no_token_is_refused_in_one_shape(guarded: Guarded, sent: str) -> None:
    check_shape(await guarded.client.get(EXPERIMENTS, headers={"authorization": sent}), 401)


async def test_another_secret_under_a_known_id_is_refused(guarded: Guarded) -> None:
    ours, theirs = guarded.tokens[OURS, Scope.READ], guarded.tokens[THEIRS, Scope.READ]
    mixed = f"{ours[:17]}{theirs[17:]}"
    check_shape(await guarded.client.get(EXPERIMENTS, headers=bearer(mixed)), 401)
    assert (await guarded.client.get(EXPERIMENTS, headers=bearer(ours))).status_code == 200


async def test_a_revoked_token_is_refused_from_the_next_request_on(guarded: Guarded) -> None:
    admin, token = guarded.headers(OURS, Scope.ADMIN), guarded.tokens[THEIRS, Scope.READ]
    assert (await guarded.client.get(EXPERIMENTS, headers=bearer(token))).status_code == 200
    assert (await guarded.client.delete(f"/api/v1/tokens/{token[4:16]}", headers=admin)).status_code == 204
    check_shape(await guarded.client.get(EXPERIMENTS, headers=bearer(token)), 401)
    check_shape(await guarded.client.delete(f"/api/v1/tokens/{token[4:16]}", headers=admin), 404)


async def test_an_expired_token_is_refused(guarded: Guarded) -> None:
    made = await guarded.access.create_token(TokenWish(name="short", project=OURS, expires_in_days=1))
    assert (await guarded.client.get(EXPERIMENTS, headers=bearer(made.token))).status_code == 200
    with psycopg.connect(libpq_url(guarded.settings.database_url.get_secret_value())) as connection:
        connection.execute("UPDATE api_token SET expires_at = now() - interval '1 second' WHERE id = %s", (made.id,))
    check_shape(await guarded.client.get(EXPERIMENTS, headers=bearer(made.token)), 401)


async def test_a_token_is_shown_once_and_kept_as_a_digest(guarded: Guarded) -> None:
    admin = guarded.headers(OURS, Scope.ADMIN)
    made = (await guarded.client.post("/api/v1/tokens", headers=admin, json={"name": "ci"})).json()
    secret = made["token"].rpartition(f"{made['id']}_")[2]
    assert secret not in (await guarded.client.get("/api/v1/tokens", headers=admin)).text
    assert secret not in (await guarded.client.get("/api/v1/audit", headers=admin)).text
    with psycopg.connect(libpq_url(guarded.settings.database_url.get_secret_value())) as connection:
        kept = connection.execute("SELECT digest FROM api_token WHERE id = %s", (made["id"],)).fetchall()
    assert kept == [(digest_of(secret),)]
    assert len(secret) == 43, "256 bits"


async def test_an_unknown_id_takes_the_same_work(guarded: Guarded) -> None:
    """Both look once into the database and compare one digest; the times are only told, hosts differ."""
    known = f"{guarded.tokens[OURS, Scope.READ][:17]}{'A' * 43}"
    spent: dict[str, list[float]] = {known: [], "vdt_000000000000_" + "A" * 43: []}
    for _ in range(20):
        for token, times in spent.items():
            started = time.perf_counter()
            assert (await guarded.client.get(EXPERIMENTS, headers=bearer(token))).status_code == 401
            times.append(time.perf_counter() - started)
    print({token[:16]: f"{median(times) * 1000:.2f} ms" for token, times in spent.items()})  # noqa: T201


@pytest.mark.parametrize("query", ["access_token=x", "token=x", "api_key=x", "q=vdt_000000000000_" + "A" * 43])
async def test_a_token_in_the_address_is_refused(guarded: Guarded, query: str) -> None:
    headers = guarded.headers(OURS)
    check_shape(await guarded.client.get(f"{EXPERIMENTS}?{query}", headers=headers), 400)


async def test_no_log_has_a_token_or_a_password(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    token = guarded.tokens[OURS, Scope.READ]
    with caplog.at_level(logging.DEBUG):
        await guarded.client.get(EXPERIMENTS, headers=bearer(token))
        await guarded.client.get(f"{EXPERIMENTS}?token={token}")
        await guarded.client.get(EXPERIMENTS, headers=bearer(f"{token[:-1]}x"))
    assert "/api/v1/experiments" in caplog.text
    assert token[17:-1] not in caplog.text
    assert "Bearer" not in caplog.text


# Where the service may be open


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "verdraft.example"])
def test_bound_wider_than_loopback_it_does_not_start_without_access_control(settings: Settings, host: str) -> None:
    with pytest.raises(AccessRefused, match="VERDRAFT_ACCESS"):
        create_app(settings.model_copy(update={"host": host}))
    create_app(settings.model_copy(update={"host": host, "access": "required"}))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_on_loopback_it_starts(settings: Settings, host: str) -> None:
    create_app(settings.model_copy(update={"host": host}))


@pytest.mark.parametrize(
    ("client", "status"), [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.7", 403)]
)
async def test_without_access_control_only_this_host_is_answered(settings: Settings, client: str, status: int) -> None:
    """Whatever address the socket was bound to, by mistake, with uvicorn's own option."""
    transport = httpx.ASGITransport(create_app(settings), client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
        assert (await asking.get("/openapi.json")).status_code == status


async def test_open_means_that_everybody_is_the_local_administrator(client: httpx.AsyncClient) -> None:
    who = (await client.get("/api/v1/whoami")).json()
    assert who == {"actor": LOCAL.actor, "project": "default", "scope": "admin"}


async def test_a_public_name_is_one_of_ours(settings: Settings) -> None:
    named = settings.model_copy(update={"access": "required", "public_url": "https://verdraft.example.org"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(named)), base_url="http://x") as asking:
        assert (await asking.get("/openapi.json", headers={"host": "verdraft.example.org"})).status_code == 200
        assert (await asking.get("/openapi.json", headers={"host": "evil.example"})).status_code == 403


# Rates, quotas, the audit log


async def test_too_many_submissions_are_told_when_to_come_again(settings: Settings, guarded: Guarded) -> None:
    few = guarded.settings.model_copy(update={"submits_per_minute": 2})
    transport = httpx.ASGITransport(create_app(few))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
        headers = guarded.headers(OURS, Scope.SUBMIT)
        statuses = [(await asking.post(EXPERIMENTS, headers=headers, json={})).status_code for _ in range(3)]
        refused = await asking.post(EXPERIMENTS, headers=headers, json={})
        assert (await asking.get(EXPERIMENTS, headers=headers)).status_code == 200, "reading is not submitting"
    assert statuses == [422, 422, 429]
    check_shape(refused, 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_the_audit_log_cannot_be_changed(guarded: Guarded) -> None:
    url = libpq_url(guarded.settings.database_url.get_secret_value())
    for statement in ("UPDATE audit_event SET actor = 'x'", "DELETE FROM audit_event", "TRUNCATE audit_event"):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.RaiseException, match="only grows"):
            connection.execute(statement.encode())


async def test_the_audit_log_says_who_did_what(guarded: Guarded) -> None:
    admin = guarded.headers(OURS, Scope.ADMIN)
    made = (await guarded.client.post("/api/v1/tokens", headers=admin, json={"name": "ci", "scope": "submit"})).json()
    await guarded.client.delete(f"/api/v1/tokens/{made['id']}", headers=admin)
    events = (await guarded.client.get("/api/v1/audit", headers=admin)).json()["items"]
    about = [(e["action"], e["actor"], e["project"]) for e in events if e["target"] == f"token:{made['id']}"]
    assert about == [("token.revoke", "token:alpha-admin", OURS), ("token.create", "token:alpha-admin", OURS)]


async def test_the_audit_log_is_read_page_by_page(guarded: Guarded) -> None:
    admin = guarded.headers(OURS, Scope.ADMIN)
    first = (await guarded.client.get("/api/v1/audit?limit=2", headers=admin)).json()
    second = (await guarded.client.get(f"/api/v1/audit?limit=2&cursor={first['next_cursor']}", headers=admin)).json()
    ids = [event["id"] for event in first["items"] + second["items"]]
    assert ids == sorted(set(ids), reverse=True)
    assert len(ids) == 4


def test_a_principal_sees_its_own_project_unless_it_administers() -> None:
    assert Principal("x", OURS, Scope.SUBMIT, "x").sees_only == OURS
    assert Principal("x", OURS, Scope.ADMIN, "x").sees_only is None
