"""Several experiments side by side: what differs is said first, and nothing is claimed between them."""

import re

import pytest
from playwright.sync_api import Page, expect

from app.domain.manifest import Manifest
from tests.browser.conftest import Teller
from tests.browser.story import Story

pytestmark = pytest.mark.browser


REPORT_MS = 300_000


@pytest.fixture
def two(page: Page, told: Teller) -> tuple[Manifest, Manifest]:
    """The second has other traces under the same names, and is not finished. Their reports are there."""
    both = told(Story(blocks=5, name="before", requests=12)), told(Story(blocks=2, name="after", requests=8))
    for manifest in both:
        assert page.request.get(f"/api/v1/experiments/{manifest.digest}/report", timeout=REPORT_MS).ok
    return both


def address(*manifests: Manifest) -> str:
    return "/compare?" + "&".join(f"of={manifest.digest[:12]}" for manifest in manifests)


def test_pins_that_differ_come_first_and_the_rest_is_folded(page: Page, two: tuple[Manifest, Manifest]) -> None:
    page.goto(address(*two))
    expect(page.get_by_role("heading", name="2 experiments side by side")).to_be_visible()
    differing = page.get_by_role("region", name="Pins that differ")
    expect(differing.get_by_role("row", name="workload tasks")).to_contain_text(two[1].workloads[0].trace)
    expect(page.get_by_role("row", name="engine")).to_be_hidden()
    page.get_by_text("pins that are equal everywhere").click()
    expect(page.get_by_role("region", name="Pins that are equal").get_by_role("row", name="engine")).to_be_visible()


def test_words_stand_side_by_side_with_what_to_be_careful_of(page: Page, two: tuple[Manifest, Manifest]) -> None:
    page.goto(address(*two))
    careful = page.get_by_role("region", name="Read across with care")
    expect(careful).to_contain_text("nothing was controlled")
    expect(careful).to_contain_text("The workload tasks is not the same trace everywhere")
    expect(careful).to_contain_text(re.compile("after .* is not finished, 2 of 5 blocks"))
    table = page.get_by_role("region", name="Verdicts side by side")
    group = table.locator("tbody").filter(has_text="ngram-k4 · tasks at low")
    expect(group.get_by_role("row", name="A before")).to_contain_text("HELPS")
    expect(group.get_by_role("row", name="B after")).to_contain_text("other requests")
    expect(group.locator("svg.strip")).to_have_count(2)


def test_the_api_says_the_same(page: Page, two: tuple[Manifest, Manifest]) -> None:
    page.goto(address(*two))
    found = page.request.get(f"/api/v1{address(*two)}").json()
    assert [e["name"] for e in found["experiments"]] == ["before", "after"]
    report = page.request.get(f"/api/v1/experiments/{two[0].digest}/report").json()
    for verdict in report["verdicts"]:
        (row,) = (
            r
            for r in found["conditions"]
            if (r["arm"], r["workload"], r["load"]) == (verdict["arm"], verdict["workload"], verdict["load"])
        )
        assert (row["cells"][0]["word"], row["cells"][0]["ratio"]) == (verdict["word"], verdict["ratio"])
    for wrong in (f"of={two[0].digest[:12]}", "of=x&of=y"):
        assert page.request.get(f"/api/v1/compare?{wrong}").status == 422
    twice = page.request.get(f"/api/v1{address(two[0], two[0])}")
    assert (twice.status, twice.json()["problems"][0]["field"]) == (404, "of")


def test_they_are_chosen_from_the_newest_and_by_id(page: Page, two: tuple[Manifest, Manifest]) -> None:
    page.goto(f"/experiments/{two[0].digest[:12]}")
    page.get_by_role("link", name="Side by side").click()
    expect(page.get_by_role("checkbox", name=re.compile("before"))).to_be_checked()
    page.get_by_role("checkbox", name=re.compile("after")).check()
    page.get_by_role("button", name="Put side by side").click()
    expect(page.get_by_role("heading", name="2 experiments side by side")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Put side by side")).to_be_visible()
    page.goto("/compare")
    page.get_by_label("Or by its id").fill(two[0].digest)
    page.get_by_role("button", name="Put side by side").click()
    expect(page.get_by_text("Choose at least one more")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark_it_fits(page: Page, two: tuple[Manifest, Manifest], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 360, "height": 740})
    for place in (address(*two), "/compare"):
        page.goto(place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
