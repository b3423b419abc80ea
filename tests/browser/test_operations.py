"""The operations page in a browser: it reads, it changes, it goes on when the service does not answer."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.axe import violations
from tests.browser.conftest import Play
from tests.conftest import LiveServer
from tests.factories_operations import Floor, busy_floor

pytestmark = pytest.mark.browser

NARROW_PX = 360
REFRESHED_MS = 30_000
LIVE = "**/operations/live"
SILENT = re.compile(r"The service does not answer\. The numbers below are of 20")


@pytest.fixture
def unwatched(browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A page whose failed requests do not fail the test."""
    context = browser.new_context(base_url=live_server.url)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_busy_floor(page: Page, play: Play, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    play(busy_floor)
    for path in ("/operations", "/operations/accelerator?host=gpu1&name=GPU-cccc"):
        page.goto(path)
        assert violations(page) == [], path


def test_a_narrow_screen_scrolls_tables_not_the_page(page: Page, play: Play) -> None:
    play(busy_floor)
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    for path in ("/operations", "/operations/accelerator?host=gpu1&name=GPU-cccc", "/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PX, path


def test_what_needs_a_person_comes_first_and_leads_to_the_release(page: Page, play: Play) -> None:
    play(busy_floor)
    page.goto("/")
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    quarantine = page.locator(".attention li").filter(has_text="GPU-cccc is in quarantine")
    quarantine.get_by_role("link", name="Look at it").click()
    expect(page.get_by_role("heading", name="Release gpu1/GPU-cccc")).to_be_visible()
    page.get_by_label("Why").fill("the driver was reloaded")
    page.get_by_role("button", name="Release it").click()
    expect(page).to_have_url(re.compile("/operations$"))
    row = page.get_by_role("row").filter(has_text="gpu1/GPU-cccc")
    expect(row).to_contain_text("free")
    expect(page.locator(".attention")).not_to_contain_text("GPU-cccc")


def test_an_accelerator_is_quarantined_for_a_reason_that_is_shown(page: Page, play: Play) -> None:
    play(busy_floor)
    page.goto("/operations")
    page.get_by_role("link", name="Quarantine gpu2/GPU-dddd").click()
    page.get_by_label("Why").fill("<b>it hums</b>")
    page.get_by_role("button", name="Quarantine it").click()
    row = page.get_by_role("row").filter(has_text="gpu2/GPU-dddd")
    expect(row).to_contain_text("quarantined")
    expect(row).to_contain_text("<b>it hums</b>")


def test_the_page_follows_what_happens_and_keeps_the_focus(page: Page, play: Play) -> None:
    play(busy_floor)
    page.goto("/operations")
    link = page.get_by_role("link", name="Quarantine gpu2/GPU-dddd")
    link.focus()
    play(lambda database: Floor(database).quarantine("gpu1", "GPU-aaaa", "a fan stands still"))
    expect(page.get_by_role("cell", name="a fan stands still")).to_be_visible(timeout=REFRESHED_MS)
    expect(link).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("Needing attention: 6")


def test_a_paused_page_stands_still(page: Page, play: Play) -> None:
    play(busy_floor)
    page.goto("/operations")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
    asked.clear()
    page.wait_for_timeout(6_000)  # longer than the period of its looks
    assert asked == []
    page.get_by_role("button", name="Pause").click()
    with page.expect_request(LIVE):
        pass


def test_it_says_that_the_service_is_silent_and_recovers(unwatched: Page, play: Play) -> None:
    play(busy_floor)
    unwatched.goto("/operations")
    for answer in (_abort, _fail):
        unwatched.route(LIVE, answer)
        expect(unwatched.get_by_role("alert")).to_have_text(SILENT, timeout=REFRESHED_MS)
        expect(unwatched.get_by_role("row").filter(has_text="gpu1/GPU-cccc")).to_contain_text("quarantined")
        unwatched.unroute(LIVE)
        expect(unwatched.get_by_role("alert")).to_be_hidden(timeout=REFRESHED_MS)


def test_without_scripts_the_page_is_whole(browser: Browser, live_server: LiveServer, play: Play) -> None:
    play(busy_floor)
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/operations")
    expect(page.get_by_role("heading", name="Newest failures")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    context.close()


def _abort(route: Route) -> None:
    route.abort("connectionrefused")


def _fail(route: Route) -> None:
    route.fulfill(status=500, body="{}")
