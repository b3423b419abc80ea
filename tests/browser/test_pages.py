"""The way through the product in a browser: list, live page, comparison, and back by its address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer

pytestmark = pytest.mark.browser


def test_an_empty_service_says_what_to_do(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No experiments yet")).to_be_visible()
    page.get_by_role("link", name="Start the first one").click()
    expect(page.get_by_role("heading", name="New experiment")).to_be_visible()


def test_from_the_list_to_the_answer_to_the_comparison(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto("/")
    expect(page.get_by_label("Verdicts of demo")).to_contain_text("helps")
    page.get_by_role("link", name="demo").click()
    table = page.get_by_role("region", name="Where it helps")
    expect(table.get_by_text("HELPS").first).to_be_visible()
    expect(table.get_by_text("HURTS").first).to_be_visible()
    first = page.locator("main section").first
    expect(first).to_have_class("answer")  # what was decided comes before how far it is
    page.get_by_role("link", name="Compare in detail").click()
    expect(page).to_have_url(re.compile(f"/experiments/{manifest.digest[:12]}/compare$"))
    expect(page.get_by_role("heading", name="Is it still right?")).to_be_visible()
    expect(page.get_by_text(re.compile("per-request sums equal the engine.s counter deltas exactly"))).to_be_visible()


def test_the_address_is_the_state_of_the_comparison(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    page.locator("#filter-metric").select_option("tpot_speedup")
    page.locator("#filter-workload").select_option("tasks")
    canonical = f"/experiments/{manifest.digest[:12]}/compare?workload=tasks&metric=tpot_speedup"
    expect(page).to_have_url(re.compile(re.escape(canonical) + "$"))
    page.goto(canonical)
    forest = page.get_by_role("region", name="TPOT speed-up")
    expect(forest).to_contain_text("all strata")
    expect(forest).not_to_contain_text("open")
    expect(page.locator("#filter-workload")).to_have_value("tasks")


def test_figures_are_drawn_and_say_their_numbers(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=5))
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    figure = page.get_by_role("figure").first
    figure.scroll_into_view_if_needed()
    expect(figure.locator("svg.main-svg").first).to_be_visible()
    figure.get_by_text("The numbers of this figure").click()
    expect(figure.get_by_role("cell", name="ngram-k4").first).to_be_visible()


def test_a_running_experiment_can_be_asked_to_end(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0, stop=1))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    expect(page.get_by_text("None yet: the first comparison needs one complete block")).to_be_visible()
    expect(page.locator(".progress-head").get_by_text("1/60")).to_be_visible()
    _cancel(page)
    expect(page.get_by_text("The end was asked for")).to_be_visible()


def test_a_queued_experiment_is_canceled_at_once(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    _cancel(page)
    expect(page.get_by_text("Canceled.")).to_be_visible()


def test_an_event_refreshes_the_open_page(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    expect(page.get_by_text("Waiting: ")).to_be_visible()
    told(Story(blocks=1))  # the same manifest: a worker takes it up while the page is open
    expect(page.get_by_text("interim: not a verdict")).to_be_visible()
    expect(page.locator(".progress-head").get_by_text("1/5")).to_be_visible()


def test_a_failed_arm_shows_its_log_as_text(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2, failing_arm="draft-k4"))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    expect(page.get_by_role("region", name="Where it helps").get_by_text("INVALID").first).to_be_visible()
    page.get_by_role("link", name="Log of draft-k4, block 1").click()
    log = page.get_by_label("Server log")
    expect(log).to_contain_text("starting <script>alert(1)</script>")
    assert "\x1b" not in log.inner_text()


def test_mismatches_are_listed_and_their_text_is_only_text(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=2, planned=2, differing_arm="ngram-k4"))
    page.goto(f"/experiments/{manifest.digest[:12]}/compare")
    page.get_by_role("region", name="Mismatches").get_by_role("link").first.click()
    expect(page.get_by_text("<script>alert(1)</script>").first).to_be_visible()
    expect(page.locator("td.differs").first).to_be_visible()
    expect(page.get_by_role("heading", name="NOT_DIAGNOSED")).to_be_visible()


def test_a_run_lists_its_requests(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=1, planned=1))
    page.goto(f"/experiments/{manifest.digest[:12]}")
    page.get_by_role("link", name="Requests of ngram-k4, tasks at low, block 1").click()
    expect(page.get_by_role("row")).to_have_count(1 + 24)
    expect(page.get_by_role("row").nth(1)).to_contain_text("success")


def test_an_unknown_address_says_so_in_words(page: Page, live_server: LiveServer) -> None:
    answer = page.goto("/experiments/000000000000")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("link", name="All experiments")).to_be_visible()


def _cancel(page: Page) -> None:
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the experiment").click()
