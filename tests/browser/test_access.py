"""Every page for everyone: axe finds nothing, in light and dark, wide and narrow; the vendored files are as listed."""

import hashlib
import json
import re
from pathlib import Path
from typing import Literal

import plotly.offline
import pytest
from playwright.sync_api import Page, expect

from app.settings import PROJECT_ROOT
from tests.browser.conftest import Teller
from tests.browser.story import Story

VENDOR = PROJECT_ROOT / "frontend" / "static" / "vendor"
TEST_VENDOR = Path(__file__).parent / "vendor"
NARROW_PX = 390


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, told: Teller, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    manifest = told(Story(blocks=5))
    at = f"/experiments/{manifest.digest[:12]}"
    workload = f"/workloads/{manifest.workloads[0].trace[:12]}"
    for path in ("/", at, f"{at}/compare", "/experiments/new", "/workloads", "/workloads/new", workload, "/operations"):
        page.goto(path)
        assert _violations(page) == [], path


@pytest.mark.browser
def test_colours_follow_the_scheme(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    page.get_by_role("figure").first.scroll_into_view_if_needed()
    bar = page.locator(".plot path.xerror").first
    light = bar.evaluate("e => getComputedStyle(e).stroke")
    ground = str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).not_to_have_css("background-color", ground)
    expect(bar).not_to_have_css("stroke", light)


@pytest.mark.browser
def test_a_narrow_screen_scrolls_tables_not_the_page(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2))
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    at = f"/experiments/{manifest.digest[:12]}"
    workload = f"/workloads/{manifest.workloads[0].trace[:12]}"
    for path in ("/", at, f"{at}/compare", "/experiments/new", "/workloads", "/workloads/new", workload, "/operations"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PX, path


@pytest.mark.parametrize("folder", [VENDOR, TEST_VENDOR])
def test_vendored_files_are_those_of_their_list(folder: Path) -> None:
    listed = json.loads((folder / "hashes.json").read_text())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.js")}
    assert found == {name: entry["sha256"] for name, entry in listed.items()}
    for entry in listed.values():
        assert (folder / f"LICENSE.{entry['package']}.txt").exists()


def test_the_browser_draws_with_the_version_that_python_builds_for() -> None:
    embedded = re.search(r"plotly\.js v([\d.]+)", plotly.offline.get_plotlyjs()[:400])
    assert embedded is not None
    assert [path.name for path in VENDOR.glob("plotly-*.js")] == [f"plotly-cartesian-{embedded[1]}.min.js"]


def _violations(page: Page) -> list[str]:
    (axe,) = TEST_VENDOR.glob("axe-*.js")
    page.evaluate(axe.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {node['html'][:160]}" for v in found["violations"] for node in v["nodes"]]
