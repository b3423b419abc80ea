"""What the same would cost without the store: a row an INSERT, and one CSV that pandas reads."""

import csv
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg

from app.domain.observation import RequestObservation
from app.evidence.rows import FIELDS, row_of
from app.settings import PROJECT_ROOT
from benchmarks.evidence.loading import Store
from tests.conftest import libpq_url

PANDAS: Final = PROJECT_ROOT / ".runtimes" / "rivals" / "pandas" / "bin" / "python"
INSERTED: Final = 2000
_QUESTION: Final = """
import sys, time
import pandas
started = time.monotonic()
table = pandas.read_csv(sys.argv[1])
run = table[table["run"] == int(sys.argv[2])].sort_values("request_id").head(500)
assert len(run) == 500, len(run)
print(time.monotonic() - started)
"""


@dataclass(frozen=True, slots=True)
class Csv:
    """One file with observations, and how long pandas takes to find 500 cases of one run in it."""

    rows: int
    file_bytes: int
    seconds: float


def insert_rate(store: Store) -> float:
    """Rows a second with one INSERT a row, in one transaction, into a table like ours; the table is dropped."""
    seen = [*islice(_observations(store), INSERTED)]
    places = ", ".join(["%s"] * (len(FIELDS) + 2))
    statement = f"INSERT INTO rival (experiment, run_id, {', '.join(FIELDS)}) VALUES ({places})".encode()  # noqa: S608
    with psycopg.connect(libpq_url(store.url)) as connection:
        connection.execute("CREATE TABLE rival (LIKE observation INCLUDING ALL)")
        run_id, started = uuid4(), time.monotonic()
        for observation in seen:
            connection.execute(statement, (store.experiments[0], run_id, *_cells(observation)))
        connection.commit()
        seconds = time.monotonic() - started
        connection.execute("DROP TABLE rival")
    return len(seen) / seconds


def csv_of(store: Store, path: Path, rows: int) -> Csv:
    """Write ``rows`` observations into one CSV and let pandas look for one run. Raises ``RuntimeError`` without it."""
    if not PANDAS.exists():
        raise RuntimeError("pandas is not there: run scripts/pandas.sh")
    written = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", *FIELDS])
        while written < rows:
            for run, made in enumerate(store.runs.values()):
                writer.writerows([run + written, *map(_text, row_of(o))] for o in made.observations)
            written += sum(len(made.observations) for made in store.runs.values())
    argv = [str(PANDAS), "-c", _QUESTION, str(path), "3"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = Csv(written, path.stat().st_size, float(answer.stdout))
    path.unlink()
    return found


def _observations(store: Store) -> chain[RequestObservation]:
    return chain.from_iterable(made.observations for made in store.runs.values())


def _cells(observation: RequestObservation) -> Sequence[object]:
    exact = {"text", "reasoning", "tool_calls", "error"}
    return [
        v.encode() if n in exact and isinstance(v, str) else list(v) if isinstance(v, tuple) else v
        for n, v in zip(FIELDS, row_of(observation), strict=True)
    ]


def _text(value: object) -> object:
    return json.dumps(value) if isinstance(value, tuple) else value
