"""A figure, its CSV, the report of the API and the report in the bundle state the same numbers to the last digit."""

import csv
import io
import json
from pathlib import Path

import httpx
import pytest

from app.bundle.archive import unpack
from app.bundle.index import REPORT
from app.db.session import Database
from app.figures import FIGURES
from app.settings import Settings
from tests.browser.story import Story, tell
from tests.test_figures import numbers, stated

PLACES = {float(n) for n in range(8)}
"""Draft positions and parts of a list, which are counted and not measured."""
VIEWS = ({}, {"workload": "tasks", "load": "low", "stratum": "task=copy", "metric": "tpot_speedup"})

REFUSED = {
    "figures/nothing.csv": 404,
    "figures/nothing": 404,
    "figures/paired_blocks?load=nowhere": 404,
    "figures/paired_blocks.csv?stratum=task%3Dnothing": 404,
    "figures/paired_blocks?metric=luck": 422,
    "figures/paired_blocks?colour=red": 422,
}


@pytest.fixture
async def told(database: Database, settings: Settings) -> str:
    """The address of a story's experiment."""
    manifest = await tell(database, Story(blocks=2, planned=2, requests=12), settings.artifact_root)
    return f"/api/v1/experiments/{manifest.digest}"


async def test_figures_csv_report_and_bundle_agree_to_the_last_digit(
    client: httpx.AsyncClient, told: str, tmp_path: Path
) -> None:
    report = (await client.get(f"{told}/report")).json()
    archive = tmp_path / "bundle.tar.zst"
    archive.write_bytes((await client.get(f"{told}/bundle")).content)
    (tmp_path / "in").mkdir()
    unpack(archive, tmp_path / "in")
    bundled = json.loads((tmp_path / "in" / REPORT).read_bytes())
    assert {**report, "expiry": None} == bundled
    known = {*numbers(bundled)} | PLACES
    drawn: set[str] = set()
    for name in FIGURES:
        for view in VIEWS:
            figure = (await client.get(f"{told}/figures/{name}", params=view)).json()
            _, *rows = _lines((await client.get(f"{told}/figures/{name}.csv", params=view)).text)
            table = {number for row in rows for cell in row if (number := _number(cell)) is not None}
            shown = {number for trace in figure["data"] for number in stated(trace)}
            assert table <= known, name
            assert shown <= table | PLACES, name
            drawn |= {name} if shown - PLACES else set()
    assert drawn == set(FIGURES) - {"foretold_speedup", "draft_cost"}  # the story's engine has no histograms


async def test_a_figure_can_be_taken_as_a_file(client: httpx.AsyncClient, told: str) -> None:
    answer = await client.get(f"{told}/figures/paired_blocks.csv", params={"load": "low"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="paired_blocks.csv"'
    header, *rows = _lines(answer.text)
    assert header[:5] == ["arm", "workload", "load", "block", "ratio"]
    assert {row[2] for row in rows} == {"low"}


async def test_what_is_not_there_is_refused(client: httpx.AsyncClient, told: str) -> None:
    for path, status in REFUSED.items():
        assert (await client.get(f"{told}/{path}")).status_code == status, path


def _lines(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
