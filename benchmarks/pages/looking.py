"""Look at pages with a real Chromium: when something is painted, when it can be used, how fast a filter answers."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import FLAGS

QUIET_MS: Final = 700
PATIENCE_MS: Final = 60_000
_WATCH: Final = """
    window.longest = 0;
    new PerformanceObserver(list => {
        for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.startTime + task.duration);
    }).observe({type: 'longtask', buffered: true});
"""
_TIMES: Final = """() => {
    const [page] = performance.getEntriesByType('navigation');
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    const uses = document.querySelector('[hx-get]') !== null;
    return {painted: paint ? paint.startTime : null, complete: page.domContentLoadedEventEnd, task: window.longest,
            ready: !uses || typeof htmx !== 'undefined'};
}"""
_FILTER: Final = """([name, value]) => new Promise((answer, refuse) => {
    const field = document.querySelector(`.cases-filters [name="${name}"]`);
    const before = document.querySelector('#found');
    const started = performance.now();
    const watcher = new MutationObserver(() => {
        const now = document.querySelector('#found');
        if (!now || now === before) return;
        watcher.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => answer(performance.now() - started)));
    });
    watcher.observe(document.querySelector('main'), {childList: true, subtree: true});
    setTimeout(() => refuse(new Error('no answer to ' + name)), 60000);
    field.value = value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
})"""


@dataclass(frozen=True, slots=True)
class Look:
    """Milliseconds from the navigation's start."""

    painted_ms: float
    usable_ms: float


@contextmanager
def chromium(path: str) -> Generator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@contextmanager
def fresh_page(browser: Browser, base_url: str) -> Generator[Page]:
    """In a profile of its own: nothing is cached."""
    context = browser.new_context(base_url=base_url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(_WATCH)
    yield context.new_page()
    context.close()


def look(browser: Browser, base_url: str, address: str) -> Look:
    """Usable: the document is complete, htmx is there where the page needs it, and the last long task has ended."""
    with fresh_page(browser, base_url) as page:
        page.goto(address, wait_until="domcontentloaded")
        times = _times(page)
        if times["painted"] is None or not times["ready"]:
            raise RuntimeError(f"{address} painted nothing, or htmx did not come: {times}")
        return Look(times["painted"], max(times["complete"], times["task"], times["painted"]))


def _times(page: Page) -> dict[str, Any]:
    """When it has painted and been quiet; asked again and again, since the page's policy allows no waiting inside."""
    times: dict[str, Any] = {"painted": None}
    for _ in range(PATIENCE_MS // QUIET_MS):
        page.wait_for_timeout(QUIET_MS)
        times = page.evaluate(_TIMES)
        if times["painted"] is not None:
            break
    return times


def filter_once(page: Page, name: str, value: str) -> float:
    """Milliseconds from the input to the frame in which its rows are painted."""
    return float(page.evaluate(_FILTER, [name, value]))


def wait_for(page: Page, address: str, gone: str, patience_s: float) -> float:
    """Seconds until ``gone`` is no longer on the page."""
    started = time.monotonic()
    while time.monotonic() - started < patience_s:
        page.goto(address)
        if page.locator(gone).count() == 0:
            return time.monotonic() - started
        page.wait_for_timeout(3000)
    raise RuntimeError(f"{address} still shows {gone} after {patience_s:.0f} s")
