"""What was controlled, what the engine did and where its memory went, as a reviewer looks for it."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.pages import wording
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser


def test_the_comparison_says_what_was_controlled_and_where_memory_went(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    expect(page.get_by_text("No control failed in any compared run.")).to_be_visible()
    page.get_by_text("Every control over all compared runs").click()
    controls = page.get_by_role("region", name="Every control")
    expect(controls.get_by_role("row", name="client lateness")).to_be_visible()
    expect(controls.get_by_role("row", name="reconciliation: accepted_tokens", exact=False).first).to_be_visible()
    engine = page.get_by_role("region", name="Steps, cache, power and processor")
    expect(engine.get_by_role("row", name="target-only").first).to_contain_text("10")
    expect(page.get_by_text("Draft time: not observable")).to_be_visible()
    memory = page.get_by_role("region", name="Memory by arm")
    expect(memory.get_by_role("row", name="draft weights 0 B")).to_contain_text("700 MB")
    expect(memory.get_by_role("row", name="activations at peak")).to_contain_text(wording.UNKNOWN)
    expect(memory.get_by_role("row", name="KV cache holds")).to_contain_text("116,816 fewer")


def test_a_run_shows_its_controls_and_its_timeline(page: Page, told: Teller, live_server: LiveServer) -> None:
    manifest = told(Story(blocks=1))
    runs = page.request.get(f"{live_server.url}/api/v1/experiments/{manifest.digest}/runs").json()
    run = next(r for r in runs if (r["arm"], r["workload"], r["load"]) == ("draft-k4", "tasks", "high"))
    page.goto(f"/runs/{run['id']}")
    controls = page.get_by_role("region", name="Controls of this run")
    expect(controls.get_by_role("row", name="throttling")).to_contain_text("! warn")
    figure = page.get_by_role("figure")
    figure.scroll_into_view_if_needed()
    expect(figure.locator("svg.main-svg").first).to_be_visible()
    figure.get_by_text("The timeline in numbers").click()
    expect(figure.get_by_role("row", name="power")).to_contain_text("W")
    page.get_by_text("What was not observable, and why").click()
    expect(page.get_by_text("device:energy_j: Not Supported")).to_be_visible()


def test_another_tool_s_result_stands_beside_and_apart(page: Page, told: Teller, live_server: LiveServer) -> None:
    manifest = told(Story(blocks=1))
    file = Path(__file__).parents[1] / "data" / "interop" / "vllm_bench_ngram.json"
    answer = page.request.post(
        f"{live_server.url}/api/v1/imports?experiment={manifest.digest}&label=by%20hand%20%3Cb%3E",
        data=file.read_bytes(),
        headers={"content-type": "application/json"},
    )
    assert answer.status == 201
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    beside = page.get_by_role("region", name="by hand <b>, not controlled by Verdraft, beside our arms")
    expect(beside).to_contain_text("not controlled")
    expect(beside.get_by_role("row", name="target-only").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("region", name="Take it away").get_by_role("link", name="CSV", exact=True).click()
    assert download.value.suggested_filename.endswith(".csv")
