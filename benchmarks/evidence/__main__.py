"""``make bench-evidence``: what it costs to write, keep and read evidence, and whether that grows with the store."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.evidence.asking import Stage, ask
from benchmarks.evidence.loading import Store
from benchmarks.evidence.making import OBSERVATIONS_AN_EXPERIMENT, RUNS_AN_EXPERIMENT
from benchmarks.evidence.rivals import csv_of, insert_rate

OBSERVATIONS: Final = 10_000_000
STAGES: Final = (100, 10, 1)
"""The store is asked when a hundredth, a tenth and all of it is loaded."""
PAGE_S: Final = 1.0
FLAT: Final = 2.0
FASTER: Final = 3.0
CSV_ROWS: Final = 100_000
BYTES_FREE: Final = 5000
"""For each observation, with indexes, write-ahead log and series."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row. Without a bar it is for information."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def is_short(self) -> bool:
        if self.bar is None:
            return False
        return self.value < self.bar if self.at_least else self.value > self.bar

    @property
    def bar_in_words(self) -> str:
        return "" if self.bar is None else f"{'>=' if self.at_least else '<='} {self.bar:g}"


def main(
    *,
    observations: Annotated[int, typer.Option(help="How many to load; ten million take long.")] = OBSERVATIONS,
    directory: Annotated[Path | None, typer.Option(help="Where there is room for it.")] = None,
    keep_csv: Annotated[int, typer.Option(help="Rows of the CSV that pandas reads.")] = CSV_ROWS,
) -> None:
    """Exits with 1 if a figure misses its bar; its row is marked SHORT."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="vd-", dir=directory, ignore_cleanup_errors=True) as home:
        free, needed = shutil.disk_usage(home).free, observations * BYTES_FREE
        if free < needed:
            console.print(f"{needed / 1e9:.0f} GB are needed and {free / 1e9:.0f} GB are free: --directory, or fewer")
            raise typer.Exit(2)
        figures = asyncio.run(_measure(Path(home), observations, keep_csv, console))
    console.print(_table(figures))
    raise typer.Exit(1 if any(figure.is_short for figure in figures) else 0)


async def _measure(home: Path, observations: int, csv_rows: int, console: Console) -> list[Figure]:
    store = Store(home)
    try:
        stages: list[Stage] = []
        for part in STAGES:
            await store.load(max(1, round(observations / part / OBSERVATIONS_AN_EXPERIMENT)))
            stages.append(await ask(store))
            console.print(f"{store.spent.observations:,} observations: {stages[-1]}")
        return [*_writing(store), *_reading(store, stages[-1], home, csv_rows), *_growth(stages)]
    finally:
        await store.close()


def _writing(store: Store) -> list[Figure]:
    spent = store.spent
    rate, plain = spent.observations / spent.copying_s, insert_rate(store)
    runs = len(store.experiments) * RUNS_AN_EXPERIMENT
    return [
        Figure(f"{spent.observations:,} observations of {runs:,} runs loaded, all told", spent.loading_s, "s"),
        Figure("ingest, from objects to their transaction", rate, "rows/s"),
        Figure("the same, one INSERT a row", plain, "rows/s"),
        Figure("ingest / INSERT", rate / plain, "x", FASTER, at_least=True),
    ]


def _reading(store: Store, stage: Stage, home: Path, csv_rows: int) -> list[Figure]:
    csv = csv_of(store, home / "rival.csv", min(csv_rows, stage.observations))
    return [
        Figure("disk, with index", stage.table_bytes / stage.observations, "B/row"),
        Figure("the same as CSV", csv.file_bytes / csv.rows, "B/row"),
        Figure("500 cases of a run, p95", stage.cases_s, "s", PAGE_S),
        Figure(f"pandas on a CSV of {csv.rows:,} rows", csv.seconds, "s"),
        Figure("pandas / ours", csv.seconds / stage.cases_s, "x", FASTER, at_least=True),
        Figure("a run's page, p95", stage.case_page_s, "s", PAGE_S),
        Figure("a run's series, p95", stage.series_s, "s", PAGE_S),
        Figure("report, p95", stage.report_s, "s", PAGE_S),
        Figure("compare page, p95", stage.compare_s, "s", PAGE_S),
        Figure(f"report of {OBSERVATIONS_AN_EXPERIMENT:,} observations, computed once", stage.report_first_s, "s"),
        Figure("registering an experiment, p95", stage.register_s, "s", PAGE_S),
    ]


def _growth(stages: Sequence[Stage]) -> list[Figure]:
    """The largest store against the smallest; differences below 20 ms are noise, so that is the floor."""
    first, last = stages[0], stages[-1]
    span = f"{first.observations:,} to {last.observations:,}"
    return [
        Figure(f"{name}, {span}", max(late, 0.02) / max(early, 0.02), "x", FLAT)
        for name, early, late in (
            ("cases", first.cases_s, last.cases_s),
            ("series", first.series_s, last.series_s),
            ("report", first.report_s, last.report_s),
            ("compare page", first.compare_s, last.compare_s),
            ("report computed", first.report_first_s, last.report_first_s),
            ("registering", first.register_s, last.register_s),
        )
    ]


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "measured", "bar", "")
    for figure in figures:
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.3f}"  # noqa: PLR2004
        verdict = "" if figure.bar is None else "SHORT" if figure.is_short else "ok"
        table.add_row(figure.what, f"{value} {figure.unit}", figure.bar_in_words, verdict)
    return table


if __name__ == "__main__":
    typer.run(main)
