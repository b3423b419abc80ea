"""The page of an experiment that is over: the decision, why a word is open, what to do, the way to evidence."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser

TILES = re.compile("Where it helps")


def test_the_decision_comes_first_and_its_command_can_be_copied(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/experiments/{manifest.digest[:12]}")
    first = page.locator("main section").first
    expect(first).to_have_class("answer")
    expect(first.locator(".sentence")).to_have_text(re.compile("^Confirm ngram-k4 before it is deployed: .*high\\.$"))
    command = first.locator("code").inner_text()
    assert "vllm serve" in command
    first.get_by_role("button", name="Copy").click()
    expect(first.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_each_tile_has_its_word_its_interval_and_why_it_is_open(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    tiles = page.get_by_role("region", name=TILES)
    low = tiles.locator(".tile.whole").filter(has_text="low").first
    expect(low.locator(".verdict[data-word=HELPS]")).to_have_count(2)
    expect(low.get_by_role("img", name=re.compile("ngram-k4: HELPS, 2.*×"))).to_be_visible()  # noqa: RUF001
    unsure = tiles.locator(".tile.whole .line[data-word=INCONCLUSIVE]").first
    expect(unsure).to_contain_text(
        re.compile(r"straddles the 5\.0% margin\. About \d+ blocks would decide; it has 5\.")
    )
    widths = [
        page.locator(f".whole .verdict[data-word={word}]").first.evaluate("e => e.getBoundingClientRect().height")
        for word in ("INCONCLUSIVE", "HELPS")
    ]
    assert widths[0] == widths[1]
    low.get_by_role("heading").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/compare\?workload=tasks&load=low&stratum=all#strata-title$"))


def test_an_invalid_word_names_its_gate_and_what_to_do(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2, failing_arm="draft-k4"))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    line = page.locator(".tile.whole .line[data-word=INVALID]").first
    expect(line).to_contain_text("Gate failed: every run completed.")
    expect(line).to_contain_text("Read the log of that server")
    gates = page.get_by_role("region", name="Could the numbers be trusted?")
    expect(gates).to_contain_text("1 gate failed")
    expect(page.get_by_text("exploratory", exact=True).first).to_be_visible()


def test_the_checklist_has_ten_items_with_evidence_and_what_to_do(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.goto(f"/experiments/{manifest.digest[:12]}#check-pins")
    items = page.locator(".checklist .item")
    expect(items).to_have_count(10)
    expect(page.locator("#check-pins")).to_have_attribute("open", "")  # its address opens it
    swept = page.locator("#check-swept")
    expect(swept).to_contain_text("not met")
    expect(swept).to_contain_text("num_speculative_tokens: [2, 4, 8]")
    for item in items.all():
        for link in item.locator(".links a").all():
            href = link.get_attribute("href") or ""
            if href.startswith("#"):
                assert page.locator(href).count() == 1, href
            else:
                assert page.request.get(href).status == 200, href


def test_anchors_of_the_other_page_are_there(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    hrefs = [link.get_attribute("href") or "" for link in page.locator("a[href*='compare'][href*='#']").all()]
    wanted = {href.partition("#")[2] for href in hrefs}
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    assert {name for name in wanted if page.locator(f"[id='{name}']").count() != 1} == set()


def test_without_javascript_everything_is_there(browser: Browser, live_server: LiveServer, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"/experiments/{manifest.digest[:12]}")
    expect(opened.locator(".tile.whole .strip .point").first).to_be_visible()
    expect(opened.locator(".answer code")).to_contain_text("vllm serve")
    expect(opened.get_by_role("button", name="Copy")).to_have_count(0)
    expect(opened.get_by_role("button", name="Print")).to_have_count(0)
    context.close()


def test_on_paper_everything_is_open_and_nothing_leads_away(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator(".toc")).to_be_hidden()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.locator("nav").first).to_be_hidden()
    paper = page.locator(".paper")
    expect(paper).to_be_visible()
    expect(paper).to_contain_text(f"/experiments/{manifest.digest[:12]}")
    expect(paper).to_contain_text(manifest.digest)
    expect(paper).to_contain_text(datetime.now(UTC).strftime("%Y-%m-"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("#check-pins dd").first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ground').trim()") == "#f7f7f5"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("#check-pins")).not_to_have_attribute("open", "")
