"""Colours follow the scheme; the vendored files are as listed."""

import hashlib
import json
import re
from pathlib import Path

import plotly.offline
import pytest
from playwright.sync_api import Page, expect

from app.settings import PROJECT_ROOT
from tests.browser.conftest import Teller
from tests.browser.story import Story

VENDOR = PROJECT_ROOT / "frontend" / "static" / "vendor"
TEST_VENDOR = Path(__file__).parent / "vendor"


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
