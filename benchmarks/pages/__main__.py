"""``make bench-pages``: every page beside a million observations, in a real browser, against its bars."""

import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.error import URLError

import typer
from playwright.sync_api import Browser
from rich.console import Console
from rich.table import Table

from app import embedded
from benchmarks.pages.filling import Filled, fill
from benchmarks.pages.looking import chromium, filter_once, fresh_page, look, wait_for
from tests.browser.conftest import NAMES

OBSERVATIONS: Final = 1_000_000
BYTES_FREE: Final = 8000
PAINTED_MS: Final = 1000
USABLE_MS: Final = 2000
FILTERED_MS: Final = 300
COMPUTING: Final = "[data-computing]"
FILTERS: Final = (
    ("one arm", {"arm": "ngram-k4"}),
    ("a load, slowest first", {"load": "low"}),
    ("what failed", {"outcome": "stream_error"}),
    ("what differs", {"answer": "differs"}),
    ("a latency", {"e2e_min": "700"}),
    ("a request", {"request": "tasks-low-12"}),
    ("worst against target-only", {"sort": "-ratio"}),
    (
        "arm, load, outcome, latency and order",
        {"arm": "ngram-k4", "load": "high", "outcome": "success", "e2e_min": "300", "sort": "-ttft"},
    ),
    ("many that do not match", {"tokens_min": "61", "sort": "late"}),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: all repeats, in milliseconds. The worst is held to the bar."""

    what: str
    measured: tuple[float, ...]
    bar: float | None

    @property
    def is_short(self) -> bool:
        return self.bar is not None and max(self.measured) > self.bar


@dataclass(frozen=True, slots=True)
class Wish:
    """What is measured, and how often."""

    observations: int
    others: int
    repeats: int
    minutes: float


def main(
    *,
    observations: Annotated[int, typer.Option(help="Of the large experiment.")] = OBSERVATIONS,
    others: Annotated[int, typer.Option(help="Further experiments on the index.")] = 30,
    repeats: Annotated[int, typer.Option(help="Looks at each page and answers of each filter.")] = 5,
    report_minutes: Annotated[float, typer.Option(help="How long to wait for the large report; 0: not at all.")] = 60,
    directory: Annotated[Path | None, typer.Option(help="Where there is room for it.")] = None,
) -> None:
    """Exits with 1 if a figure misses its bar; its row is marked SHORT."""
    console = Console()
    found = os.environ.get("VERDRAFT_CHROMIUM") or next((p for p in map(shutil.which, NAMES) if p), None)
    if found is None:
        console.print("there is no Chromium: install one or set VERDRAFT_CHROMIUM")
        raise typer.Exit(2)
    wish = Wish(observations, others, repeats, report_minutes)
    with tempfile.TemporaryDirectory(prefix="vd-", dir=directory, ignore_cleanup_errors=True) as home:
        free, needed = shutil.disk_usage(home).free, observations * BYTES_FREE
        if free < needed:
            console.print(f"{needed / 1e9:.0f} GB are needed and {free / 1e9:.0f} GB are free: --directory, or fewer")
            raise typer.Exit(2)
        try:
            figures = _measure(Path(home), found, console, wish)
        finally:
            embedded.stop_postgres(Path(home))
    console.print(_table(figures))
    raise typer.Exit(1 if any(figure.is_short for figure in figures) else 0)


def _measure(home: Path, browser_path: str, console: Console, wish: Wish) -> list[Figure]:
    started = time.monotonic()
    filled = asyncio.run(fill(home, wish.observations, wish.others))
    took = time.monotonic() - started
    console.print(f"{filled.observations:,} observations of one experiment filled in {took:.0f} s")
    with _served(home, filled.url) as url, chromium(browser_path) as browser:
        return [*_looked(browser, url, filled, console, wish)]


def _looked(browser: Browser, url: str, filled: Filled, console: Console, wish: Wish) -> Generator[Figure]:
    """First what needs no report, so that computing one disturbs nothing."""
    repeats = wish.repeats
    large, small, running = (f"/experiments/{d[:12]}" for d in (filled.large, filled.small, filled.running))
    cases = f"{large}/cases"
    yield from _page(browser, url, "cases, being taken from the evidence", cases, repeats=1)
    with fresh_page(browser, url) as page:
        console.print(f"cases were there after {wait_for(page, cases, COMPUTING, 3600):.0f} s")
    yield from _page(browser, url, "cases", cases, repeats)
    deep = _deep(browser, url, filled.large)
    yield from _page(browser, url, "cases, 100,000 further on", f"{cases}?after={deep}", repeats)
    yield from _page(browser, url, "one case", f"{cases}/tasks/tasks-high-7", repeats)
    yield from _filters(browser, url, cases, repeats)
    yield from _page(browser, url, "live", running, repeats)
    with fresh_page(browser, url) as page:
        wait_for(page, small, COMPUTING, 600)
    yield from _page(browser, url, "experiment, 1,440 observations", small, repeats)
    yield from _page(browser, url, "compare, 1,440 observations", f"{small}/compare", repeats)
    yield from _page(browser, url, "index", "/", repeats)
    yield from _page(browser, url, "experiment, its report being computed", large, repeats)
    yield from _page(browser, url, "compare, the report being computed", f"{large}/compare", repeats)
    if wish.minutes:
        with fresh_page(browser, url) as page:
            console.print(f"its report was there after {wait_for(page, large, COMPUTING, wish.minutes * 60):.0f} s")
        yield from _page(browser, url, "experiment", large, repeats)
        yield from _page(browser, url, "compare", f"{large}/compare", repeats)


def _page(browser: Browser, url: str, what: str, address: str, repeats: int) -> Generator[Figure]:
    looks = [look(browser, url, address) for _ in range(repeats)]
    yield Figure(f"{what}: first contentful paint", tuple(one.painted_ms for one in looks), PAINTED_MS)
    yield Figure(f"{what}: interactive", tuple(one.usable_ms for one in looks), USABLE_MS)


def _filters(browser: Browser, url: str, cases: str, repeats: int) -> Generator[Figure]:
    """The last field of each is the one that is changed; the others are in the address already."""
    for what, asked in FILTERS:
        *before, (name, value) = asked.items()
        address = f"{cases}?{'&'.join(f'{field}={of}' for field, of in before)}"
        measured: list[float] = []
        for _ in range(repeats):
            with fresh_page(browser, url) as page:
                page.goto(address)
                measured.append(filter_once(page, name, value))
        yield Figure(f"filter: {what}", tuple(measured), FILTERED_MS)


def _deep(browser: Browser, url: str, experiment: str) -> str:
    """A cursor far down, as the API gives it."""
    cursor, api = "", f"{url}/api/v1/experiments/{experiment}/cases?limit=1000"
    with fresh_page(browser, url) as page:
        for _ in range(100):
            got = page.request.get(f"{api}&after={cursor}" if cursor else api).json()
            if got["next_cursor"] is None:
                break
            cursor = got["next_cursor"]
    return cursor


@contextmanager
def _served(home: Path, database_url: str) -> Generator[str]:
    """The real web process on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    own = {"VERDRAFT_HOME": str(home), "VERDRAFT_DATABASE_URL": database_url, "VERDRAFT_PORT": str(port)}
    argv = (sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--port", str(port))
    with (home / "web.log").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, **own}, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _await(f"{url}/healthz", process)
        yield url
    finally:
        process.terminate()
        process.wait()


def _await(address: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the web process ended with {process.returncode}")
        try:
            urllib.request.urlopen(address, timeout=5).close()  # noqa: S310  (our own loopback)
        except (URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("the web process does not answer")


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("page or filter", "median", "worst", "bar", "")
    for figure in figures:
        verdict = "" if figure.bar is None else "SHORT" if figure.is_short else "ok"
        bar = "" if figure.bar is None else f"<= {figure.bar:,.0f} ms"
        median, worst = statistics.median(figure.measured), max(figure.measured)
        table.add_row(figure.what, f"{median:,.0f} ms", f"{worst:,.0f} ms", bar, verdict)
    return table


if __name__ == "__main__":
    typer.run(main)
