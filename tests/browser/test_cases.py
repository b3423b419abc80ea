"""Single requests as a reader finds them: filtered, sorted, paged, and one of them under every arm."""

import csv
import io
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from app.domain.manifest import Manifest
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser

STORY = Story(blocks=2, planned=2, differing_arm="draft-k4")
RATIO = "E2E ratio"
CASES = 2 * 3 * 2 * 2 * 24
"""Blocks, arms, workloads, loads, requests."""


@pytest.fixture
def cases(page: Page, told: Teller) -> Callable[[str], Manifest]:
    """Tells the story and goes to its cases."""
    manifest = told(STORY)

    def go(query: str = "") -> Manifest:
        page.goto(f"/experiments/{manifest.digest[:12]}/cases{query}")
        return manifest

    return go


def rows(page: Page) -> int:
    return page.locator(".cases tbody tr").count()


def test_filters_narrow_the_list_and_the_address_follows(page: Page, cases: Callable[[str], Manifest]) -> None:
    manifest = cases("")
    expect(page.get_by_text(f"{CASES} cases, slowest end to end first")).to_be_visible()
    page.locator("#filter-arm").select_option("ngram-k4")
    expect(page.get_by_text(f"{CASES // 3} cases")).to_be_visible()
    page.get_by_label("Request begins").fill("tasks-low-1")
    expect(page.get_by_text("22 cases")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/cases\?arm=ngram-k4&request=tasks-low-1$"))
    page.go_back()
    page.go_back()
    expect(page.get_by_text(f"{CASES} cases")).to_be_visible()
    expect(page.locator("#filter-arm")).to_have_value("")
    page.go_forward()
    expect(page.get_by_text(f"{CASES // 3} cases")).to_be_visible()
    expect(page.locator("#filter-arm")).to_have_value("ngram-k4")
    page.reload()
    expect(page.get_by_text(f"{CASES // 3} cases")).to_be_visible()
    assert manifest.digest[:12] in page.url


def test_pages_go_on_where_the_last_ended(page: Page, cases: Callable[[str], Manifest]) -> None:
    cases("?sort=request&arm=target-only")
    seen = page.locator(".cases tbody th").all_inner_texts()
    assert len(seen) == 50
    page.get_by_role("link", name="Next 50").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    more = page.locator(".cases tbody tr").all_inner_texts()
    assert len(more) == 50
    assert not set(more) & set(seen)
    page.go_back()
    expect(page.get_by_role("link", name="First page")).to_have_count(0)


def test_a_column_sorts_and_says_so(page: Page, cases: Callable[[str], Manifest]) -> None:
    cases("?arm=draft-k4")
    page.get_by_role("link", name=RATIO).click()
    expect(page.get_by_role("columnheader", name=RATIO)).to_have_attribute("aria-sort", "descending")
    ratios = [float(text[:-1]) for text in page.locator(".cases tbody tr td:nth-of-type(9)").all_inner_texts()]
    assert ratios == sorted(ratios, reverse=True)
    page.get_by_role("link", name=RATIO).click()
    expect(page.get_by_role("columnheader", name=RATIO)).to_have_attribute("aria-sort", "ascending")


def test_two_tabs_keep_their_own_filters(page: Page, cases: Callable[[str], Manifest]) -> None:
    cases("?arm=ngram-k4")
    other = page.context.new_page()
    other.goto(page.url.replace("ngram-k4", "draft-k4"))
    other.locator("#filter-load").select_option("high")
    expect(other).to_have_url(re.compile("arm=draft-k4&load=high$"))
    expect(page.locator("#filter-load")).to_have_value("")
    page.reload()
    expect(page.get_by_text(f"{CASES // 3} cases")).to_be_visible()


def test_without_javascript_the_form_has_a_button(browser: Browser, live_server: LiveServer, told: Teller) -> None:
    manifest = told(STORY)
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"/experiments/{manifest.digest[:12]}/cases")
    opened.locator("#filter-answer").select_option("differs")
    opened.get_by_role("button", name="Show").click()
    expect(opened.get_by_text("8 cases")).to_be_visible()
    expect(opened.get_by_text("≠ differs")).to_have_count(8)
    context.close()


def test_what_cannot_be_asked_is_refused_by_name(page: Page, cases: Callable[[str], Manifest]) -> None:
    manifest = cases("?sort=-colour")
    expect(page.get_by_role("heading", name="The address is not valid")).to_be_visible()
    expect(page.get_by_text("sort")).to_be_visible()
    cases("?colour=red")
    expect(page.get_by_text("this parameter is unknown")).to_be_visible()
    api = f"/api/v1/experiments/{manifest.digest}/cases"
    for wrong, field in (("sort=-colour", "query.sort"), ("colour=red", "query.colour"), ("limit=0", "query.limit")):
        answer = page.request.get(f"{api}?{wrong}")
        assert (answer.status, answer.json()["problems"][0]["field"]) == (422, field)
    assert page.request.get(f"{api}?arm=nobody").status == 404


def test_page_api_and_csv_say_the_same(page: Page, cases: Callable[[str], Manifest]) -> None:
    manifest = cases("?answer=differs&sort=request")
    api = f"/api/v1/experiments/{manifest.digest}/cases"
    told_by_api = page.request.get(f"{api}?answer=differs&sort=request").json()
    assert told_by_api["total"] == rows(page) == 8
    assert page.locator(".cases tbody th").all_inner_texts() == [c["request_id"] for c in told_by_api["items"]]
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == f"verdraft-{manifest.digest[:12]}-cases.csv"
    table = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["request_id"] for row in table] == [c["request_id"] for c in told_by_api["items"]]
    assert [row["ratio"] for row in table] == [repr(c["ratio"]) for c in told_by_api["items"]]
    assert {row["text"] for row in table} == {"<script>alert(1)</script>"}


def test_one_case_stands_under_every_arm(page: Page, cases: Callable[[str], Manifest]) -> None:
    cases("?answer=differs&sort=request")
    page.locator(".cases tbody th a").first.click()
    expect(page.get_by_role("heading", name=re.compile("one request, every arm"))).to_be_visible()
    draft = page.get_by_role("article", name="draft-k4, block 1")
    expect(draft.get_by_text("\u2260 differs from target-only\u2019s from token 40 on")).to_be_visible()
    expect(draft.locator(".answer-text")).to_contain_text("<script>alert(1)</script>")
    expect(draft.locator(".first-difference").last).to_have_text("9")
    ngram = page.get_by_role("article", name="ngram-k4, block 1")
    expect(ngram.get_by_text("= the same as target-only\u2019s")).to_be_visible()
    ngram.get_by_text(re.compile("drafted tokens accepted")).click()
    expect(ngram.locator(".token-run .drafted").last).to_contain_text("accepted:")
    figure = page.get_by_role("figure").first
    expect(figure.locator("svg.lanes")).to_have_count(3)
    figure.get_by_text("The times in numbers").click()
    expect(figure.get_by_role("row", name="target-only")).to_contain_text("(1)")
    expect(page.get_by_label("Reference")).to_have_text("abcd")


def test_a_case_that_is_not_there_says_where_to_look(page: Page, cases: Callable[[str], Manifest]) -> None:
    manifest = cases("")
    page.goto(f"/experiments/{manifest.digest[:12]}/cases/tasks/nobody")
    expect(page.get_by_text("tasks has no request nobody")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark_it_fits(page: Page, cases: Callable[[str], Manifest], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 360, "height": 740})
    manifest = cases("")
    for place in ("", "/tasks/tasks-low-0"):
        page.goto(f"/experiments/{manifest.digest[:12]}/cases{place}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
