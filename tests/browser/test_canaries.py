"""What others wrote is shown as text: canaries in every field that is shown do nothing on any page."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_MS, Play, Teller
from tests.browser.every_page import addresses
from tests.browser.story import Story
from tests.factories_operations import busy_floor

pytestmark = pytest.mark.browser

MARK = "canary-7c1"
CANARY = f"{MARK}\"'--><script>canary=1</script><img src=x onerror=canary=1><svg onload=canary=1>{{{{7*'7'}}}}"
LINK = "<a href='javascript:canary=1'>x</a>"
SEQUENCES = f"\x1b[31m{CANARY}{LINK}\x1b]8;;javascript:1\x07\u202e"
FOUND = """() => ({
  ran: window.canary ?? null,
  nodes: document.querySelectorAll(
    'img[src="x"], svg[onload], a[href^="javascript:" i], [onerror], script:not([src]):not([type="application/json"])'
  ).length,
  text: document.documentElement.textContent,
})"""
SILENT = {
    "/experiments/new", "/workloads", "/workloads/new", "/workloads/{prefix}", "logging in", "an error", "/",
    "/experiments/{prefix}/shelf", "/compare", "/imports", "/imports/new",
}  # fmt: skip
"""Pages that show none of the story's free texts."""


def test_what_engines_hosts_and_people_say_is_only_text(page: Page, told: Teller, play: Play) -> None:
    ended = told(
        Story(blocks=2, planned=2, name="hostile", hostile=SEQUENCES, differing_arm="ngram-k4", failing_arm="draft-k4")
    )
    running = told(Story(blocks=1, stop=1, name="running", hostile=SEQUENCES, failing_arm="draft-k4"))
    play(busy_floor)
    listed = addresses(page, ended, running)
    for _ in range(2):  # back to work, and aside again for a reason of ours
        page.goto(listed["/operations/accelerator"])
        page.get_by_label("Why").fill(CANARY)
        page.get_by_role("main").get_by_role("button").first.click()
    shown: set[str] = set()
    for name, path in listed.items():
        page.goto(path, timeout=4 * PATIENCE_MS)
        _is_only_text(page, name)
        if MARK in page.evaluate(FOUND)["text"]:
            shown.add(name)
    assert listed.keys() - shown - SILENT == set()


def test_what_an_address_says_is_only_text(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    at = f"/experiments/{manifest.digest[:12]}"
    for path in (
        f"/experiments/{CANARY[:60]}",
        f"{at}/compare?workload={CANARY}",
        f"{at}/compare?metric={CANARY}",
        f"{at}/mismatch?arm={CANARY}",
        f"/?q={CANARY}",
        f"/?tag={CANARY}",
        f"/login?next=javascript:{MARK}",
        f"/workloads/{CANARY[:60]}",
        f"/operations/accelerator?host={CANARY}&name=x",
        f"/experiments/new?from={CANARY}",
    ):
        page.goto(path.replace("#", "%23"))
        _is_only_text(page, path)


def test_what_is_typed_comes_back_as_text(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.goto(f"/experiments/{manifest.digest[:12]}/shelf")
    page.locator("#tags").fill(CANARY)
    page.get_by_role("button", name="Save the tags").click()
    expect(page.locator(".wrong").first).to_be_visible()
    _is_only_text(page, "tags")
    page.goto("/experiments/new", timeout=4 * PATIENCE_MS)
    page.locator("#name").fill(CANARY)
    page.locator("#name").press("Enter")
    page.wait_for_load_state()
    _is_only_text(page, "the form")


def _is_only_text(page: Page, name: str) -> None:
    found = page.evaluate(FOUND)
    assert (found["ran"], found["nodes"]) == (None, 0), name
    assert "\x1b" not in found["text"], name
    assert "\u202e" not in found["text"], name
    assert "7777777" not in found["text"], name
