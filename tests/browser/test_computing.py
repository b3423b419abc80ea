"""A page whose report takes long paints at once and shows itself when the report is there."""

import pytest
from playwright.sync_api import Browser, Page, expect

from app.settings import Settings
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """No page waits for its report."""
    return settings.model_copy(update={"page_patience_s": 0})


@pytest.mark.parametrize("place", ["", "/compare"])
def test_the_page_paints_without_its_report_and_then_shows_it(page: Page, told: Teller, place: str) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}{place}")
    expect(page.get_by_text("The report is being computed.")).to_be_visible()
    expect(page.locator("section.answer")).to_be_visible()
    expect(page.get_by_text("The report is being computed.")).to_have_count(0)


def test_without_javascript_it_asks_again_too(browser: Browser, live_server: LiveServer, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"/experiments/{manifest.digest[:12]}")
    expect(opened.get_by_text("The report is being computed.")).to_be_visible()
    expect(opened.locator("section.answer")).to_be_visible()
    context.close()
