"""A person logs in where access is required, and the pages' own figures and streams come for them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect
from pydantic import SecretStr

from app.access.schemas import AccountWish
from app.access.service import AccessService
from app.db.session import Database
from app.domain.access import Scope
from app.settings import Settings
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"access": "required"})


@pytest.fixture
def ada(live_server: LiveServer) -> str:
    """Who may submit in the default project."""

    async def make() -> None:
        database = Database(live_server.settings.database_url.get_secret_value())
        await AccessService(database).set_account(
            AccountWish(name="ada", password=SecretStr(PASSWORD), scope=Scope.SUBMIT)
        )
        await database.dispose()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, make()).result()
    return "ada"


def log_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def test_one_logs_in_comes_back_and_logs_out(page: Page, ada: str) -> None:
    page.goto("/workloads")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, ada)
    expect(page).to_have_url("/workloads")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto("/")
    expect(page).to_have_url("/login?next=%2F")


def test_figures_and_the_live_stream_come_for_whoever_is_logged_in(page: Page, told: Teller, ada: str) -> None:
    running = told(Story(blocks=1, planned=2, stop=2))
    page.goto(f"/experiments/{running.digest[:12]}")
    with page.expect_response(lambda answer: answer.url.endswith(("/events", "/stream"))) as stream:
        log_in(page, ada)
    assert stream.value.status == 200
    with page.expect_response(lambda answer: "/figures/" in answer.url) as figure:
        page.goto(f"/experiments/{running.digest[:12]}/compare")
        page.locator("[data-figure]").first.scroll_into_view_if_needed()
    assert figure.value.status == 200
