"""``make bench-conductor``: the wall time of whole experiments against what their replays were planned to take.

A deployment of its own (Postgres, Redis, a Celery worker) serves the fake engine, which starts at once.
"""

import asyncio
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.db.session import Database
from app.domain.manifest import Manifest
from app.domain.trace import Trace, parse_trace
from app.evidence.repository import EvidenceRepository
from app.experiments.service import ExperimentService
from tests.chaos.house import House
from tests.factories import encode_lines, trace_lines

OVERHEAD_MAX = 1.05
EIGHT_MAX = 1.3
WORKERS = 8
RATE_RPS = 5.0
WARMUP_REQUESTS = 20
WARMUP_S = WARMUP_REQUESTS / RATE_RPS
TARGET = "plain"
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: ``ratio`` of ``measured_s`` to ``reference_s`` may be ``bar`` at most."""

    what: str
    measured_s: float
    reference_s: float
    bar: float

    @property
    def ratio(self) -> float:
        return self.measured_s / self.reference_s

    @property
    def is_short(self) -> bool:
        return self.ratio > self.bar


def main(
    *,
    minutes: Annotated[float, typer.Option(help="Planned length of the experiment whose overhead is measured.")] = 10,
    seconds: Annotated[float, typer.Option(help="Planned length of a replay where eight workers share the host.")] = 60,
    only: Annotated[str | None, typer.Option(help="`overhead` or `eight`.")] = None,
) -> None:
    """Exits with 1 if a figure misses its bar; its row is marked SHORT."""
    figures: list[Figure] = []
    if only in {None, "overhead"}:
        figures.append(asyncio.run(_overhead(minutes * 60)))
    if only in {None, "eight"}:
        figures.append(asyncio.run(_eight(seconds)))
    Console().print(_table(figures))
    raise typer.Exit(1 if any(figure.is_short for figure in figures) else 0)


async def _overhead(planned_s: float) -> Figure:
    """Two blocks of two arms at two loads, one worker. What is spent beside the replays is spent once a session."""
    blocks, arms, loads = 2, 2, 2
    sessions = blocks * arms
    with _house(1) as house:
        trace = _trace(("low", "high"), (planned_s / sessions - WARMUP_S) / loads)
        wall_s = await _conduct(house, trace, blocks=blocks)
    beside_s = (wall_s - planned_s) / sessions
    what = f"{sessions} sessions, {sessions * loads} runs, {beside_s:.1f} s a session beside them: wall / planned"
    return Figure(what, wall_s, planned_s, OVERHEAD_MAX)


async def _eight(seconds: float) -> Figure:
    """The same block once alone and then eight times at once, on a host with eight places."""
    with _house(WORKERS) as house:
        trace = _trace(("low",), seconds)
        alone_s = await _conduct(house, trace, blocks=1)
        together_s = await _conduct(house, trace, blocks=WORKERS)
    what = f"{WORKERS} workers, {RATE_RPS:g} requests/s each: {WORKERS} blocks / one block"
    return Figure(what, together_s, alone_s, EIGHT_MAX)


@contextmanager
def _house(places: int) -> Generator[House]:
    """A house whose worker is up and idle."""
    with tempfile.TemporaryDirectory(prefix="vd-", ignore_cleanup_errors=True) as directory:
        house = House(Path(directory), {TARGET: {"step_ms": {"*": 10.0}}})
        house.settings = house.settings.model_copy(update={"processor_places": places, "lease_s": 60.0})
        house.start_worker()
        try:
            while len(house.query("SELECT name FROM accelerator")) < places:
                time.sleep(0.1)
            yield house
        finally:
            house.close()


def _trace(loads: Sequence[str], seconds: float) -> Trace:
    """Requests each fifth of a second; the loads have the same rate, so that all of it is waiting."""
    points = [{"name": name, "rate_rps": RATE_RPS} for name in loads]
    lines = trace_lines(loads=points, requests=round(seconds * RATE_RPS), warmup=WARMUP_REQUESTS, max_tokens=16)
    for line in lines[1:]:
        line["due_ns"] = round(int(line["request_id"].rpartition("-")[2]) / RATE_RPS * NS_PER_S)
    for load in lines[0]["loads"]:
        load["duration_ns"] = round(seconds * NS_PER_S)
    return parse_trace(encode_lines(lines))


async def _conduct(house: House, trace: Trace, *, blocks: int) -> float:
    """Seconds from submission to the end of the experiment."""
    loads = [
        {"name": load.name, "regime": regime, "rate_rps": RATE_RPS}
        for load, regime in zip(trace.header.loads, ("latency", "serving"), strict=False)
    ]
    manifest = house.manifest(trace, TARGET, name=f"bench-{blocks}", blocks=blocks, loads=loads)
    database = Database(house.url)
    try:
        async with database.transaction() as session:
            await EvidenceRepository(session).store_trace(trace)
        started = time.monotonic()
        await ExperimentService(database, house.settings).register(manifest)
        return await _ended(house, database, manifest) - started
    finally:
        await database.dispose()


async def _ended(house: House, database: Database, manifest: Manifest) -> float:
    service = ExperimentService(database, house.settings)
    while (await service.read(manifest.digest)).state not in {"FINISHED", "FAILED"}:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    ended = time.monotonic()
    void = house.query("SELECT failure FROM run WHERE state <> 'SUCCEEDED'")
    if void:
        Console().print(f"{len(void)} runs had to be repeated or failed: {void[0][0]}")
    return ended


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "measured s", "reference s", "ratio", "bar", "")
    for figure in figures:
        row = (f"{figure.measured_s:.1f}", f"{figure.reference_s:.1f}", f"{figure.ratio:.3f}", f"<= {figure.bar:g}")
        table.add_row(figure.what, *row, "SHORT" if figure.is_short else "ok")
    return table


if __name__ == "__main__":
    typer.run(main)
