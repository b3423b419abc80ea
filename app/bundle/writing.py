"""Write a bundle's members into a directory, one run after the other, so that memory holds a few thousand rows.

The same evidence always gives the same bytes, as long as the libraries that write Parquet are the same.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow.parquet as pq

from app.bundle.groups import ROWS_A_GROUP
from app.bundle.index import (
    ARTIFACTS,
    INDEX,
    MANIFEST,
    OBSERVATIONS,
    REPORT,
    RUNS,
    SERIES,
    SESSIONS,
    ArtifactLine,
    BundleIndex,
    Member,
    RunIndex,
    artifact_path,
    name_of,
    trace_path,
)
from app.bundle.tables import (
    OBSERVATION_SCHEMA,
    SERIES_SCHEMA,
    Table,
    observation_table,
    series_table,
    table_digest,
)
from app.domain.canonical import canonical_json, canonical_model
from app.domain.evidence import ExperimentEvidence, RunEvidence, SessionEvidence
from app.domain.manifest import Manifest
from app.domain.report import ANALYSIS_VERSION
from app.domain.series import Series
from app.domain.trace import Trace
from app.evidence.rows import Row, row_of

_GROWING = ("chunk_ns", "at_ns")
_WORDS = ["outcome", "finish_reason", "name", "labels"]
_SEEN = {"observations", "series"}


@dataclass(slots=True)
class _Tally:
    """What the run that is being written has so far in one of the tables."""

    rows: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, table: Table) -> None:
        self.rows += len(table)
        self.digest.update(table_digest(table))


class BundleWriter:
    """``open_run``, then its rows and series, and so on; then ``close`` and ``write_index``."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory, self._manifest = directory, manifest
        self._observations = _writer(directory / OBSERVATIONS, OBSERVATION_SCHEMA)
        self._series = _writer(directory / SERIES, SERIES_SCHEMA)
        self._runs, self._indexed = list[RunEvidence](), list[RunIndex]()
        self._waiting, self._seen, self._sampled = list[Row](), _Tally(), _Tally()
        (directory / MANIFEST).write_bytes(manifest.canonical())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._observations.close()
        self._series.close()

    def add_trace(self, digest: str, lines: Iterable[bytes]) -> None:
        """A workload's canonical lines."""
        with self._opened(trace_path(digest)) as file:
            for line in lines:
                file.write(line + b"\n")

    def add_sessions(self, sessions: Iterable[SessionEvidence]) -> None:
        """All servers of the experiment."""
        _write_lines(self.directory / SESSIONS, map(canonical_model, sessions))

    def add_artifacts(self, lines: Sequence[ArtifactLine]) -> None:
        """Every file that was kept; those that are included are written as well, into ``artifact``."""
        _write_lines(self.directory / ARTIFACTS, map(canonical_model, lines))

    def artifact(self, sha256: str) -> BinaryIO:
        """The file into which a log or a raw file is written."""
        return self._opened(artifact_path(sha256))

    def open_run(self, run: RunEvidence) -> None:
        """What follows is of this run."""
        self._close_run()
        self._runs.append(run)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Further observations of the run, in its order."""
        self._waiting.extend(rows)
        while len(self._waiting) >= ROWS_A_GROUP:
            self._flush()

    def add_series(self, series: Sequence[Series]) -> None:
        """All that was sampled during the run."""
        places = iter(series)
        while portion := [*islice(places, ROWS_A_GROUP)]:
            table = series_table(len(self._runs) - 1, portion)
            self._series.write_table(table)
            self._sampled.add(table)

    def close(self) -> tuple[RunIndex, ...]:
        """End the last run and the tables; now they can be read."""
        self._close_run()
        self.__exit__()
        lines = (canonical_json(run.model_dump(mode="json", exclude=_SEEN)) for run in self._runs)
        _write_lines(self.directory / RUNS, lines)
        return tuple(self._indexed)

    def _opened(self, path: str) -> BinaryIO:
        place = self.directory / path
        place.parent.mkdir(exist_ok=True)
        return place.open("wb")

    def _flush(self) -> None:
        rows, self._waiting = self._waiting[:ROWS_A_GROUP], self._waiting[ROWS_A_GROUP:]
        table = observation_table(len(self._runs) - 1, rows)
        self._observations.write_table(table)
        self._seen.add(table)

    def _close_run(self) -> None:
        if not self._runs:
            return
        if self._waiting:
            self._flush()
        self._indexed.append(
            RunIndex(
                run=name_of(self._runs[-1]),
                observations=self._seen.rows,
                observations_sha256=self._seen.digest.hexdigest(),
                series=self._sampled.rows,
                series_sha256=self._sampled.digest.hexdigest(),
            )
        )
        self._seen, self._sampled = _Tally(), _Tally()


def write_evidence(directory: Path, evidence: ExperimentEvidence, traces: Mapping[str, Trace], report: bytes) -> None:
    """A whole experiment that is in memory; ``traces`` maps digest → trace."""
    with BundleWriter(directory, evidence.manifest) as writer:
        for key, trace in traces.items():
            writer.add_trace(key, trace.encode().splitlines())
        sessions = (*evidence.sessions, *evidence.diagnoses)
        writer.add_sessions(sessions)
        writer.add_artifacts(
            [
                ArtifactLine(kind="startup-log", sha256=s.log_sha256, bytes=0, session=place, included=False)
                for place, s in enumerate(sessions)
                if s.log_sha256 is not None
            ]
        )
        for run in evidence.runs:
            writer.open_run(run)
            writer.add_rows(map(row_of, run.observations))
            writer.add_series(run.series)
        write_index(directory, evidence.manifest.digest, report, ANALYSIS_VERSION, writer.close())


def write_index(
    directory: Path, experiment: str, report: bytes, analysis_version: str, runs: tuple[RunIndex, ...]
) -> None:
    """Add the report (canonical JSON), and the index of all that is in the directory; now it can be packed."""
    (directory / REPORT).write_bytes(report)
    (directory / INDEX).write_bytes(canonical_model(index_of(directory, experiment, analysis_version, runs)))


def index_of(directory: Path, experiment: str, analysis_version: str, runs: tuple[RunIndex, ...]) -> BundleIndex:
    """The index of the files in a directory."""
    paths = sorted(p for p in directory.rglob("*") if p.is_file() and p.name != INDEX)
    members = (_member(str(path.relative_to(directory)), path) for path in paths)
    return BundleIndex(experiment=experiment, analysis_version=analysis_version, members=tuple(members), runs=runs)


def digests_of(tables: Iterable[tuple[int, Table]]) -> dict[int, tuple[int, str]]:
    """Run → its rows and the digest over them."""
    found: dict[int, _Tally] = {}
    for run, table in tables:
        found.setdefault(run, _Tally()).add(table)
    return {run: (tally.rows, tally.digest.hexdigest()) for run, tally in found.items()}


def _member(name: str, path: Path) -> Member:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Member(path=name, sha256=sha256, bytes=path.stat().st_size)


def _writer(path: Path, schema: Any) -> pq.ParquetWriter:
    how: dict[str, Any] = {
        "use_dictionary": [name for name in _WORDS if name in schema.names],
        "column_encoding": {f"{n}.list.element": "DELTA_BINARY_PACKED" for n in _GROWING if n in schema.names},
    }
    return pq.ParquetWriter(path, schema, compression="zstd", **how)


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in lines)
