"""A real Chromium on the real application. Every page is watched: no console error, nothing off this host."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from app.db.session import Database
from app.domain.manifest import Manifest
from tests.browser.story import Story, tell
from tests.conftest import LiveServer

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 30_000

Teller = Callable[[Story], Manifest]
Play = Callable[[Callable[[Database], Awaitable[object]]], None]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's Chromium, or the one that ``VERDRAFT_CHROMIUM`` names.

    For one module at a time: Playwright holds the thread's event loop, which other tests need.
    """
    named = os.environ.get("VERDRAFT_CHROMIUM")
    found = named or next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip("no Chromium here; install one or set VERDRAFT_CHROMIUM")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A page in a fresh profile; the test fails on any console error or request to another host."""
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)  # its own default of 5 s would be a timed assertion
    opened = context.new_page()
    wrong: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        expected = "status of 422" in message.text or "status of 404" in message.text
        if message.type == "error" and not expected:
            wrong.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith((live_server.url, "data:", "blob:")):
            wrong.append(f"off this host: {request.url}")

    opened.on("console", on_console)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", on_request)
    yield opened
    context.close()
    assert wrong == []


@pytest.fixture
def told(live_server: LiveServer) -> Teller:
    """Plays a story into the live server's database and returns its manifest."""
    settings = live_server.settings

    async def play(story: Story) -> Manifest:
        database = Database(settings.database_url.get_secret_value())
        try:
            return await tell(database, story, settings.artifact_root)
        finally:
            await database.dispose()

    def play_aside(story: Story) -> Manifest:
        # Playwright's own loop runs in this thread, so the story gets another.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, play(story)).result()

    return play_aside


@pytest.fixture
def play(live_server: LiveServer) -> Play:
    """Change the live server's database, beside Playwright's own loop."""
    url = live_server.settings.database_url.get_secret_value()

    async def run(work: Callable[[Database], Awaitable[object]]) -> None:
        database = Database(url)
        try:
            await work(database)
        finally:
            await database.dispose()

    def run_aside(work: Callable[[Database], Awaitable[object]]) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(run(work))).result()

    return run_aside
