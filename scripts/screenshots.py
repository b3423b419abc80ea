"""Pictures of every page for the documentation: the application on a throwaway database that the browser stories fill.

``python -m scripts.screenshots`` writes them to ``docs/images/``; ``docs/pages.md`` says what each shows. A page that
logs an error, or whose picture is larger than it may be, makes it exit with 1.
"""  # noqa: INP001  (a program, not a package)

import argparse
import asyncio
import base64
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from pydantic import SecretStr
from sqlalchemy import text

from app import embedded
from app.db.notify import Live, LiveSender
from app.db.session import Database
from app.domain.manifest import Manifest
from app.main import create_app
from app.settings import PROJECT_ROOT, Settings
from tests.browser.conftest import FLAGS, NAMES
from tests.browser.story import Story, tell
from tests.browser.story_live import told_log, told_picture
from tests.conftest import NO_BROKER, new_database
from tests.factories_operations import busy_floor

IMAGES = PROJECT_ROOT / "docs" / "images"
BYTES_MAX = 150_000
QUALITIES = (72, 58, 45, 32)
"""Tried in turn until a picture is small enough."""
WIDE, NARROW = 1280, 360
HEIGHT_MAX = 1700
PATIENCE_MS = 60_000

UNDER_WAY = 2
"""Index of the block in which the running experiment is."""
LOG = (
    "INFO [model_runner.py] Model loading took 1.98 GiB and 2.1 seconds",
    "INFO [kv_cache_utils.py] GPU KV cache size: 699,008 tokens",
    "INFO [loggers.py] Engine 000: Avg generation throughput: 812.4 tokens/s, Running: 3 reqs, Waiting: 2 reqs",
    "INFO [metrics.py] SpecDecoding metrics: Mean acceptance length: 3.40, Avg Draft acceptance rate: 62.0%",
)
HELD = "UPDATE block SET lease_expires_at = now() + interval '1 hour' WHERE lease_owner = 'here:1'"

T = TypeVar("T")
Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: where, and how it is looked at. ``opens`` are texts that are clicked first."""

    name: str
    path: str
    scheme: Scheme = "light"
    width: int = WIDE
    prints: bool = False
    opens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """The experiments there are: one decided, one with wrong answers, one with an arm that failed, one under way."""

    decided: Manifest
    differing: Manifest
    failed: Manifest
    running: Manifest


def main() -> int:
    """Fill a database, look at every page, write the pictures."""
    parser = argparse.ArgumentParser(prog="python -m scripts.screenshots", description=__doc__)
    parser.add_argument("--output", type=Path, default=IMAGES)
    parser.add_argument("--only", default="", help="names of pictures, with commas between")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    with throwaway() as settings, serving(settings) as url, chromium() as browser:
        told = fill(settings)
        only = set(filter(None, asked.only.split(",")))
        for shot in shots(browser, url, told):
            if not only or shot.name in only:
                faults += Look(browser, url, settings, told).take(shot, asked.output)
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def shots(browser: Browser, url: str, told: Told) -> list[Shot]:
    """Every page once, wide and light; some of them dark, narrow or printed."""
    at, failed, running = (f"/experiments/{m.digest[:12]}" for m in (told.decided, told.failed, told.running))
    page = browser.new_page(base_url=url)
    runs = page.request.get(f"/api/v1/experiments/{told.decided.digest}/runs").json()
    run = next(r for r in runs if (r["arm"], r["load"]) == ("draft-k4", "high"))
    page.goto(f"/experiments/{told.differing.digest[:12]}/compare")
    mismatch = page.locator("table.mismatches a").first.get_attribute("href") or f"{at}/compare"
    page.close()
    workload = told.decided.workloads[0]
    case = f"{at}/cases/{workload.name}/{workload.name}-{told.decided.loads[0].name}-0"
    return [
        Shot("experiments", "/"),
        Shot("experiments-dark", "/", scheme="dark"),
        Shot("new", "/experiments/new"),
        Shot("clone", f"/experiments/new?from={told.decided.digest[:12]}"),
        Shot("workloads", "/workloads"),
        Shot("upload", "/workloads/new"),
        Shot("workload", f"/workloads/{workload.trace[:12]}"),
        Shot("running", running, opens=("The engine's log, as it is written",)),
        Shot("running-dark", running, scheme="dark"),
        Shot("running-narrow", running, width=NARROW),
        Shot("experiment", at),
        Shot("experiment-dark", at, scheme="dark"),
        Shot("experiment-narrow", at, width=NARROW),
        Shot("experiment-print", at, prints=True),
        Shot("failed", failed),
        Shot("compare", f"{at}/compare"),
        Shot("compare-dark", f"{at}/compare", scheme="dark"),
        Shot("across", f"/compare?of={told.decided.digest[:12]}&of={told.failed.digest[:12]}"),
        Shot("cases", f"{at}/cases"),
        Shot("case", case),
        Shot("mismatch", mismatch),
        Shot("run", f"/runs/{run['id']}"),
        Shot("log", f"/sessions/{run['session_id']}/log"),
        Shot("shelf", f"{at}/shelf"),
        Shot("operations", "/operations"),
        Shot("accelerator", "/operations/accelerator?host=gpu1&name=GPU-cccc"),
        Shot("error", "/experiments/0123456789ab"),
    ]


@dataclass(frozen=True, slots=True)
class Look:
    """A browser before the filled application."""

    browser: Browser
    url: str
    settings: Settings
    told: Told

    def take(self, shot: Shot, output: Path) -> list[str]:
        """One picture; returns what was wrong with its page."""
        context = self.browser.new_context(base_url=self.url, viewport={"width": shot.width, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(f"{shot.name}: {error}"))
        media = "print" if shot.prints else "screen"
        page.emulate_media(color_scheme=shot.scheme, media=media, reduced_motion="reduce")
        answer = page.goto(shot.path)
        if answer is None or answer.ok == (shot.name == "error"):
            wrong.append(f"{shot.name}: {shot.path} was answered with {answer and answer.status}")
        self._settle(page, shot)
        picture = output / f"{shot.name}.webp"
        picture.write_bytes(_picture(page, shot.width))
        context.close()
        size = picture.stat().st_size
        sys.stdout.write(f"{picture.name} {size / 1000:.0f} kB\n")
        return wrong + ([f"{shot.name}: {size} bytes are more than {BYTES_MAX}"] if size > BYTES_MAX else [])

    def _settle(self, page: Page, shot: Shot) -> None:
        """Wait until it shows what it has to show. What a worker sends is kept by nobody, so it is sent until seen."""
        running = shot.path.endswith(self.told.running.digest[:12]) and page.locator("#running").count() > 0
        while running and not page.get_by_text("7/24").count():
            picture = told_picture(7, block=UNDER_WAY, gpu="GPU-8f1c22d0")
            send(self.settings, self.told.running, picture, told_log(*LOG, block=UNDER_WAY))
            page.wait_for_timeout(200)
        for words in shot.opens:
            page.get_by_text(words).click()
        if not running:
            page.wait_for_load_state("networkidle")
        _draw_figures(page)


def _draw_figures(page: Page) -> None:
    """Figures are drawn when they are scrolled to."""
    page.evaluate(
        "async () => { for (let y = 0; y < document.body.scrollHeight; y += 500) {"
        " scrollTo(0, y); await new Promise(done => setTimeout(done, 60)); } scrollTo(0, 0); }"
    )
    page.wait_for_timeout(800)


def _picture(page: Page, width: int) -> bytes:
    """As WebP, which Chromium writes itself; in the quality at which it is small enough."""
    height = min(HEIGHT_MAX, int(page.evaluate("document.documentElement.scrollHeight")))
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(300)
    session = page.context.new_cdp_session(page)
    picture = b""
    for quality in QUALITIES:
        answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        picture = base64.b64decode(answer["data"])
        if len(picture) <= BYTES_MAX:
            break
    return picture


def fill(settings: Settings) -> Told:
    """A busy floor and four experiments; the one under way is told last, since its block stays open."""

    async def play() -> Told:
        database = Database(settings.database_url.get_secret_value())
        stories = (
            Story(blocks=5, name="is-it-worth-it"),
            Story(blocks=2, planned=2, name="wrong-answers", differing_arm="ngram-k4"),
            Story(blocks=2, planned=2, name="with-mtp", failing_arm="draft-k4"),
            Story(blocks=UNDER_WAY, name="overnight", stop=2),
        )
        try:
            told = Told(*[await tell(database, story, settings.artifact_root) for story in stories])
            await busy_floor(database)
            async with database.transaction() as session:  # no worker beats for it, and looking at it takes minutes
                await session.execute(text(HELD))
        finally:
            await database.dispose()
        return told

    return aside(play)


def send(settings: Settings, manifest: Manifest, *messages: Live) -> None:
    """What a worker tells of the run under way."""

    async def work() -> None:
        sender = LiveSender(settings.database_url.get_secret_value(), manifest.digest)
        for message in messages:
            await sender.send(message)
        await sender.close()

    aside(work)


def aside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread: Playwright's own loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()


@contextmanager
def throwaway() -> Generator[Settings]:
    """Settings of an empty, migrated database that is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="vd-"))
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        url = new_database(embedded.start_postgres(home), "screenshots")
        yield Settings(
            home=home / "home",
            database_url=SecretStr(url),
            redis_url=SecretStr(NO_BROKER),
            runtime_root=home / "runtimes",
            page_patience_s=120,
            port=port,
        )
    finally:
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def serving(settings: Settings) -> Generator[str]:
    """The application on a free port."""
    config = uvicorn.Config(create_app(settings), port=settings.port, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"http://127.0.0.1:{settings.port}"
    server.should_exit = True
    thread.join(timeout=10)


@contextmanager
def chromium() -> Generator[Browser]:
    """The machine's, or the one that ``VERDRAFT_CHROMIUM`` names."""
    found = os.environ.get("VERDRAFT_CHROMIUM") or next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        sys.exit("no Chromium here; install one or set VERDRAFT_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
