"""A page that stays open while an experiment runs: it moves by itself, survives, and ends as the result."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app.db.notify import Live, LiveSender
from app.db.session import Database
from app.domain.manifest import Manifest
from app.experiments.events import Streams
from app.main import create_app
from app.settings import Settings
from tests.browser.axe import violations
from tests.browser.conftest import PATIENCE_MS
from tests.browser.story import Story, tell
from tests.browser.story_live import told_log, told_picture

pytestmark = pytest.mark.browser

T = TypeVar("T")

NARROW_PX = 360


@dataclass
class Service:
    """The application behind a port that it keeps when it is stopped and started again."""

    settings: Settings
    app: FastAPI = field(init=False)
    _server: uvicorn.Server = field(init=False)
    _thread: threading.Thread = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    @property
    def streams(self) -> int:
        """How many pages are connected."""
        return self.app.state.streams.open

    def start(self) -> None:
        self.app = create_app(self.settings)
        config = uvicorn.Config(
            self.app, port=self.settings.port, log_config=None, timeout_graceful_shutdown=1, access_log=False
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)

    def tell(self, story: Story) -> Manifest:
        async def play() -> Manifest:
            database = Database(self.settings.database_url.get_secret_value())
            try:
                return await tell(database, story, self.settings.artifact_root)
            finally:
                await database.dispose()

        return aside(play)

    def send(self, manifest: Manifest, *messages: Live) -> None:
        """What a worker would tell of the run under way."""

        async def send() -> None:
            sender = LiveSender(self.settings.database_url.get_secret_value(), manifest.digest)
            for message in messages:
                await sender.send(message)
            await sender.close()

        aside(send)


def aside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread: Playwright's own loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    running = Service(settings.model_copy(update={"port": port}))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def tabs(browser: Browser, service: Service) -> Iterator[BrowserContext]:
    """A browser profile; a failed request is no fault here, an error of a script is."""
    context = browser.new_context(base_url=service.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    wrong: list[str] = []
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    context.on("request", lambda r: None if r.url.startswith((service.url, "data:")) else wrong.append(r.url))
    yield context
    context.close()
    assert wrong == []


def open_page(tabs: BrowserContext, service: Service, manifest: Manifest) -> Page:
    """The experiment's page with its stream open."""
    before = service.streams
    page = tabs.new_page()
    page.goto(f"/experiments/{manifest.digest[:12]}")
    wait_until(page, lambda: service.streams > before)
    return page


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not holds():
        assert time.monotonic() < deadline, "it never became so"
        page.wait_for_timeout(50)


def hide(page: Page, *, hidden: bool) -> None:
    """What the browser says when a tab goes behind another one, or comes back."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_live_values_and_the_log_come_without_a_reload(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0, stop=1))
    page = open_page(tabs, service, manifest)
    now = page.get_by_role("region", name="Now live, not evidence")
    expect(now).to_contain_text("shows here within two seconds")
    service.send(manifest, told_picture(7), told_log())
    expect(now).to_contain_text("7/24")
    expect(now).to_contain_text("✕ 1 failed")
    expect(now).to_contain_text("812 tokens/s")
    expect(now).to_contain_text("61 GB")
    expect(now.get_by_label("Acceptance by position")).to_contain_text("81.0%")
    expect(now.get_by_role("img", name="Output since the run began")).to_be_visible()
    now.get_by_text("The numbers of these charts").click()
    page.get_by_text("The engine's log, as it is written").click()
    tail = page.get_by_label("End of the engine's log")
    expect(tail).to_contain_text("loading <script>alert(1)</script>")
    assert "\x1b" not in tail.inner_text()
    service.send(manifest, told_picture(8))
    expect(now).to_contain_text("8/24")
    expect(now.get_by_role("region", name="Numbers of the live charts")).to_be_visible()  # what was opened stays open
    service.send(manifest, Live("live", '{"of": "another version"}'), told_picture(9))
    expect(now).to_contain_text("9/24")


def test_the_strip_says_what_became_of_each_run(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=1, stop=2, planned=3, failing_arm="draft-k4"))
    page = open_page(tabs, service, manifest)
    strip = page.get_by_role("region", name="Schedule")
    expect(strip.get_by_role("row")).to_have_count(3)
    expect(strip.locator("[data-mark=done]")).to_have_count(2 * 4 + 2)
    expect(strip.locator("[data-mark='not run']")).to_have_count(8)  # of the servers that did not start
    expect(strip.locator("[data-mark=waiting]")).to_have_count(3 * 12 - 10 - 8)
    strip.get_by_role("link", name="tasks at low: done").first.focus()
    tip = "e => getComputedStyle(e, '::after').content"
    assert "tasks at low: done" in str(page.evaluate(tip, page.locator(":focus").element_handle()))
    left = page.locator(".left")
    expect(left).to_contain_text(" to ")


def test_what_failed_is_explained_with_what_to_do(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=1, stop=1, planned=2, failing_arm="draft-k4"))
    page = open_page(tabs, service, manifest)
    failed = page.get_by_role("region", name="What failed, and what to do")
    expect(failed).to_contain_text("✕ CONFIG")
    expect(failed).to_contain_text("Next: Correct what the message names")
    again = failed.get_by_role("link", name="Run it again as a new experiment")
    expect(again.first).to_have_attribute("href", f"/experiments/new?from={manifest.digest[:12]}")
    failed.get_by_role("link", name="Log of draft-k4, block 1").click()
    expect(page.get_by_label("Server log")).to_be_visible()
    page.go_back()
    expect(failed).to_be_visible()
    wait_until(page, lambda: service.streams == 1)
    service.send(manifest, told_picture(5))
    expect(page.get_by_text("5/24")).to_be_visible()


def test_an_open_page_becomes_the_result(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=1, planned=2))
    page = open_page(tabs, service, manifest)
    expect(page.get_by_text("interim: not a verdict").first).to_be_visible()
    assert page.locator(".watermark").get_attribute("data-stamp") == "interim: not a verdict"
    service.tell(Story(blocks=1, planned=2))
    expect(page.locator("#running")).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="demo finished: 2 of 2 blocks complete")).to_be_attached()
    assert page.get_by_text("interim: not a verdict").count() == 0
    page.reload()
    expect(page.locator("#announcement")).to_be_empty()


def test_a_restart_of_the_service_is_survived_and_said(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0, stop=1))
    page = open_page(tabs, service, manifest)
    page.evaluate("window.kept = true")
    service.stop()
    expect(page.locator("#connection")).to_contain_text("Connection lost, retrying")
    expect(page.locator(".progress-head")).to_contain_text("0/5")
    service.start()
    expect(page.locator("#connection")).to_be_hidden()
    wait_until(page, lambda: service.streams == 1)
    service.send(manifest, told_picture(11))
    expect(page.get_by_text("11/24")).to_be_visible()
    assert page.evaluate("window.kept"), "the page was loaded anew"


def test_a_change_while_the_service_was_away_is_shown(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0))
    page = open_page(tabs, service, manifest)
    service.stop()
    service.tell(Story(blocks=1))
    service.start()
    expect(page.locator(".progress-head")).to_contain_text("1/5")


def test_a_hidden_page_costs_no_stream_and_catches_up(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0))
    page = open_page(tabs, service, manifest)
    hide(page, hidden=True)
    wait_until(page, lambda: service.streams == 0)
    service.tell(Story(blocks=1))
    expect(page.locator(".progress-head")).to_contain_text("0/5")
    hide(page, hidden=False)
    expect(page.locator(".progress-head")).to_contain_text("1/5")


def test_many_tabs_are_all_usable(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0, stop=1))
    opened: list[Page] = []
    for _ in range(8):  # a browser opens six connections to a host
        for behind in opened[-1:]:
            hide(behind, hidden=True)
            wait_until(behind, lambda: service.streams == 0)
        opened.append(open_page(tabs, service, manifest))
    hide(opened[0], hidden=False)
    wait_until(opened[0], lambda: service.streams == 2)
    service.send(manifest, told_picture(13))
    for page in (opened[0], opened[-1]):
        expect(page.get_by_text("13/24")).to_be_visible()


def test_a_cancel_in_one_tab_is_seen_in_the_other(service: Service, tabs: BrowserContext) -> None:
    manifest = service.tell(Story(blocks=0, stop=1))
    other, page = open_page(tabs, service, manifest), open_page(tabs, service, manifest)
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the experiment").click()
    expect(page.get_by_text("The end was asked for")).to_be_visible()
    expect(other.get_by_text("Ending: its worker was asked to stop")).to_be_visible()


def test_without_a_stream_the_page_asks_by_itself(service: Service, tabs: BrowserContext) -> None:
    service.app.state.streams = Streams(service.app.state.database, limit=0)
    manifest = service.tell(Story(blocks=0))
    page = tabs.new_page()
    page.goto(f"/experiments/{manifest.digest[:12]}")
    expect(page.locator("#connection")).to_contain_text("asks again every few seconds")
    service.tell(Story(blocks=1))
    expect(page.locator(".progress-head")).to_contain_text("1/5")


def test_without_scripts_the_state_is_there(service: Service, browser: Browser) -> None:
    manifest = service.tell(Story(blocks=1, stop=1))
    context = browser.new_context(base_url=service.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/experiments/{manifest.digest[:12]}")
    expect(page.locator("[data-mark=done]").first).to_be_visible()
    assert '<meta http-equiv="refresh" content="15">' in page.content()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_running_experiment_is_for_everyone(
    service: Service, tabs: BrowserContext, scheme: Literal["light", "dark"]
) -> None:
    manifest = service.tell(Story(blocks=1, stop=3, failing_arm="draft-k4"))
    page = open_page(tabs, service, manifest)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    service.send(manifest, told_picture(7), told_log())
    expect(page.get_by_text("7/24")).to_be_visible()
    page.get_by_text("The numbers of these charts").click()
    page.get_by_text("The engine's log, as it is written").click()
    assert violations(page) == []
    page.set_viewport_size({"width": NARROW_PX, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PX
