"""Every page for everyone: axe finds nothing, in light and dark, wide and narrow; keyboards reach what scrolls."""

from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import NARROW_PX, violations
from tests.browser.conftest import PATIENCE_MS, Play, Teller
from tests.browser.every_page import addresses, routes
from tests.browser.story import Story
from tests.factories_operations import busy_floor

pytestmark = pytest.mark.browser
WIDE = 1280

Places = Callable[[], dict[str, str]]


@pytest.fixture
def places(page: Page, told: Teller, play: Play) -> Places:
    """Tells what every page needs, and gives their addresses."""
    page.set_default_navigation_timeout(4 * PATIENCE_MS)  # a first look at a report computes it

    def tell() -> dict[str, str]:
        ended = told(Story(blocks=2, planned=2, name="differs", differing_arm="ngram-k4"))
        running = told(Story(blocks=1, stop=1))
        play(busy_floor)
        return addresses(page, ended, running)

    return tell


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_only_tables_scroll(page: Page, places: Places, scheme: Literal["light", "dark"]) -> None:
    listed = places()
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    wrong: list[str] = []
    for name, path in listed.items():
        page.set_viewport_size({"width": WIDE, "height": 900})
        page.goto(path)
        for width in (WIDE, NARROW_PX):
            page.set_viewport_size({"width": width, "height": 900})
            wrong += [f"{name} at {width}: {found}" for found in violations(page)]
        reach = int(page.evaluate("document.documentElement.scrollWidth"))
        wrong += [f"{name} is {reach} wide on a screen of {NARROW_PX}"] if reach > NARROW_PX else []
    if wrong:
        pytest.fail("\n".join(wrong))
    assert routes() - listed.keys() == set()  # a new page is a new line in every_page


def test_what_scrolls_can_be_reached_and_sections_can_be_linked_to(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2, differing_arm="ngram-k4"))
    for place in ("", "/compare"):
        page.goto(f"/experiments/{manifest.digest[:12]}{place}")
        for scrolling in page.locator(".scroll").all():
            expect(scrolling).to_have_attribute("tabindex", "0")
            assert scrolling.get_attribute("aria-label")
        for heading in page.locator("main > section > h2:not(.visually-hidden)").all():
            name = heading.get_attribute("id")
            assert name, heading.inner_text()
            assert page.locator(f"[id='{name}']").count() == 1, name


def test_the_first_key_skips_to_the_content(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"/experiments/{manifest.digest[:12]}#main")
