"""The list of experiments: what is searched for is in the address, tags and the archive are kept, verdicts find."""

import re
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import NARROW_PX, violations
from tests.browser.conftest import Teller
from tests.browser.story import Story

pytestmark = pytest.mark.browser


def shown(page: Page) -> list[str]:
    return page.locator(".card h2").all_inner_texts()


def test_a_search_is_in_the_address_and_back_leads_out_of_it(page: Page, told: Teller) -> None:
    told(Story(blocks=2, planned=2, name="first"))
    told(Story(blocks=0, name="second"))
    page.goto("/")
    assert shown(page) == ["second", "first"]
    page.get_by_role("searchbox").fill("eco")
    page.get_by_role("searchbox").press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]q=eco"))
    assert shown(page) == ["second"]
    page.get_by_label("State").select_option("FINISHED")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", name="Nothing is found")).to_be_visible()
    page.go_back()
    assert shown(page) == ["second"]
    page.go_back()
    assert shown(page) == ["second", "first"]
    page.go_forward()
    expect(page.get_by_role("searchbox")).to_have_value("eco")
    page.goto("/?sort=name&state=FINISHED")
    assert shown(page) == ["first"]
    expect(page.get_by_label("Order")).to_have_value("name")


def test_a_verdict_finds_the_experiments_that_have_it(page: Page, told: Teller) -> None:
    told(Story(blocks=5, name="helped"))
    told(Story(blocks=0, name="waiting"))
    page.goto("/?word=HELPS")
    assert shown(page) == ["helped"]
    expect(page.get_by_role("list", name="Verdicts of helped")).to_contain_text("helps")
    page.goto("/?word=INVALID")
    assert "waiting" not in shown(page)


def test_tags_and_the_archive(page: Page, told: Teller) -> None:
    told(Story(blocks=0, name="kept"))
    manifest = told(Story(blocks=0, name="put-away"))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    page.get_by_role("link", name="Add tags, archive").click()
    page.get_by_label("Tags", exact=True).fill("Bad!")
    page.get_by_role("button", name="Save the tags").click()
    expect(page.get_by_label("Tags", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Tags", exact=True)).to_be_focused()
    expect(page.locator(".wrong")).to_contain_text("'Bad!' is no tag")
    page.get_by_label("Tags", exact=True).fill("h200, prod")
    page.get_by_role("button", name="Save the tags").click()
    page.get_by_role("link", name="prod", exact=True).click()
    expect(page).to_have_url(re.compile(r"\?tag=prod$"))
    assert shown(page) == ["put-away"]
    page.get_by_role("link", name="put-away").click()
    page.get_by_role("link", name="Tags and archive").click()
    page.get_by_role("button", name="Archive it").click()
    expect(page.locator(".shelf")).to_contain_text("archived")
    page.goto("/")
    assert shown(page) == ["kept"]
    page.get_by_role("link", name="Show archived ones too").click()
    assert shown(page) == ["put-away", "kept"]
    page.get_by_role("link", name="put-away").click()
    page.get_by_role("link", name="Tags and archive").click()
    page.get_by_role("button", name="Take it out of the archive").click()
    page.goto("/")
    assert shown(page) == ["put-away", "kept"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_its_tags_and_the_imports_are_for_everyone(
    page: Page, told: Teller, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    manifest = told(Story(blocks=2, planned=2))
    at = f"/experiments/{manifest.digest[:12]}/shelf"
    page.goto(at)
    page.get_by_label("Tags", exact=True).fill("h200 prod")
    page.get_by_role("button", name="Save the tags").click()
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    for path in ("/?tag=prod&archived=shown", "/?q=nothing", at, "/imports", "/imports/new"):
        page.goto(path)
        assert violations(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PX, path
