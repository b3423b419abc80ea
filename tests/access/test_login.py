"""A browser logs in, and only our own pages act for it."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from app.access.gate import LOGIN_COOKIE, form_token_of
from app.access.schemas import AccountWish
from app.domain.access import Scope
from app.main import create_app
from tests.access.conftest import OURS, Guarded

PASSWORD = "correct horse battery"
SAME = {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8400"}
EXPERIMENTS = "/api/v1/experiments"


@pytest.fixture
async def browser(guarded: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    """The service asked as a browser asks, with an account `ada` that may submit."""
    wish = AccountWish(name="ada", password=SecretStr(PASSWORD), project=OURS, scope=Scope.SUBMIT)
    await guarded.access.set_account(wish)
    base = str(guarded.client.base_url)
    async with httpx.AsyncClient(transport=guarded.client._transport, base_url=base) as opened:
        yield opened


def form_token(page: httpx.Response) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


async def log_in(browser: httpx.AsyncClient, password: str = PASSWORD, **fields: str) -> httpx.Response:
    token = form_token(await browser.get("/login"))
    form = {"account": "ada", "password": password, "form_token": token, **fields}
    return await browser.post("/login", data=form, headers=SAME)


async def test_a_page_sends_a_stranger_to_the_login_and_back(browser: httpx.AsyncClient) -> None:
    sent = await browser.get("/workloads?x=1")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Fworkloads%3Fx%3D1")
    assert 'name="next" value="/workloads?x=1"' in (await browser.get(sent.headers["location"])).text
    back = await log_in(browser, next="/workloads")
    assert (back.status_code, back.headers["location"]) == (303, "/workloads")
    page = await browser.get("/workloads")
    assert page.status_code == 200
    assert "<span>ada</span>" in page.text


@pytest.mark.parametrize("address", ["https://evil.example", "//evil.example", "/\\evil.example", "x", "/a\nb"])
async def test_a_login_leads_nowhere_else(browser: httpx.AsyncClient, address: str) -> None:
    assert (await log_in(browser, next=address)).headers["location"] == "/"


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: httpx.AsyncClient) -> None:
    cookie = (await log_in(browser)).headers["set-cookie"]
    assert cookie.startswith(f"{LOGIN_COOKIE}=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie, "this one is plain http on loopback"


async def test_behind_tls_the_cookie_is_secure(guarded: Guarded, browser: httpx.AsyncClient) -> None:
    named = guarded.settings.model_copy(update={"public_url": "https://verdraft.example.org"})
    transport = httpx.ASGITransport(create_app(named))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as outside:
        assert "Secure" in (await log_in(outside)).headers["set-cookie"]


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD.upper(), "x" * 2000, "\x00\ud7ff"])
async def test_a_wrong_password_lets_nobody_in(browser: httpx.AsyncClient, password: str) -> None:
    refused = await log_in(browser, password)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers
    assert (await browser.get("/")).status_code == 303


@pytest.mark.parametrize("account", ["eve", "ADA", "ada' or 1=1", "", "a" * 2000, "\x00"])
async def test_an_unknown_name_is_told_nothing_else(browser: httpx.AsyncClient, account: str) -> None:
    token = form_token(await browser.get("/login"))
    form = {"account": account, "password": PASSWORD, "form_token": token}
    refused = await browser.post("/login", data=form, headers=SAME)
    assert refused.status_code == 401
    wrong = await log_in(browser, "wrong")
    told = re.compile(r'<p class="banner bad"[^>]*>[^<]*')
    assert told.findall(refused.text) == told.findall(wrong.text) != []


async def test_too_many_attempts_wait(guarded: Guarded, browser: httpx.AsyncClient) -> None:
    few = guarded.settings.model_copy(update={"logins_per_minute": 2})
    transport = httpx.ASGITransport(create_app(few))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as guessing:
        assert [(await log_in(guessing, "wrong")).status_code for _ in range(2)] == [401, 401]
        refused = await log_in(guessing)
    assert refused.status_code == 429, "the right password too"
    assert int(refused.headers["retry-after"]) >= 1


async def test_logging_out_ends_the_login_on_the_server(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    login = browser.cookies[LOGIN_COOKIE]
    token = form_token(await browser.get("/"))
    gone = await browser.post("/logout", data={"form_token": token}, headers=SAME)
    assert (gone.status_code, gone.headers["location"]) == (303, "/login")
    browser.cookies.set(LOGIN_COOKIE, login)
    assert (await browser.get("/")).status_code == 303, "the old cookie is worth nothing"


async def test_a_disabled_account_is_out_at_once(guarded: Guarded, browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    assert (await browser.get("/")).status_code == 200
    await guarded.access.disable_account("ada")
    assert (await browser.get("/")).status_code == 303
    assert (await log_in(browser)).status_code == 401


async def test_a_new_password_ends_older_logins(guarded: Guarded, browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    wish = AccountWish(name="ada", password=SecretStr("another pass phrase"), project=OURS)
    await guarded.access.set_account(wish)
    assert (await browser.get("/")).status_code == 303


# Other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://evil.example"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8400"},
        {"origin": "http://evil.example"},
        {},
    ],
)
async def test_a_form_of_another_site_is_refused(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    await log_in(browser)
    token = form_token(await browser.get("/"))
    refused = await browser.post("/experiments/new", data={"form_token": token}, headers=headers)
    assert refused.status_code == 403
    assert (await browser.post("/logout", data={"form_token": token}, headers=headers)).status_code == 403
    assert (await browser.get("/")).status_code == 200


async def test_a_form_needs_the_token_of_this_very_login(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    before = form_token(await browser.get("/"))
    assert before == form_token_of(browser.cookies[LOGIN_COOKIE])
    await log_in(browser)
    for stale in (before, "", "A" * 43, browser.cookies.get("verdraft_form", "")):
        refused = await browser.post("/experiments/new", data={"form_token": stale}, headers=SAME)
        assert refused.status_code == 403
    own = await browser.post("/experiments/new", data={"form_token": form_token(await browser.get("/"))}, headers=SAME)
    assert own.status_code != 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", None])
async def test_the_api_reads_no_cookie_from_elsewhere(browser: httpx.AsyncClient, site: str | None) -> None:
    await log_in(browser)
    sent = {} if site is None else {"sec-fetch-site": site}
    assert (await browser.get(EXPERIMENTS, headers=sent)).status_code == 401
    assert (await browser.get("/metrics", headers=sent)).status_code == 401


async def test_the_api_changes_nothing_for_a_cookie(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    for method, path in (("POST", EXPERIMENTS), ("POST", f"{EXPERIMENTS}/{'0' * 64}/cancel"), ("DELETE", "/api/v1/x")):
        assert (await browser.request(method, path, headers=SAME)).status_code in {401, 404}
    assert (await browser.post(EXPERIMENTS, headers=SAME)).status_code == 401


async def test_our_own_pages_may_fetch_figures_and_downloads(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    assert (await browser.get(EXPERIMENTS, headers={"sec-fetch-site": "same-origin"})).status_code == 200


async def test_a_reader_may_not_submit_by_a_page(guarded: Guarded, browser: httpx.AsyncClient) -> None:
    await guarded.access.set_account(AccountWish(name="ada", password=SecretStr(PASSWORD), project=OURS))
    await log_in(browser)
    token = form_token(await browser.get("/"))
    refused = await browser.post("/experiments/new", data={"form_token": token}, headers=SAME)
    assert refused.status_code == 403
    assert "account:ada may read" in refused.text


async def test_a_page_that_refreshes_itself_is_loaded_whole_once_the_login_is_over(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/operations/live", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-refresh"]) == (401, "true")
