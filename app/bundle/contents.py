"""An unpacked bundle as evidence: sessions and runs in memory, what was seen in them still in its files."""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pyarrow as pa
from pydantic import BaseModel

from app.bundle.groups import GroupedFile, Stored
from app.bundle.index import (
    ARTIFACTS,
    MANIFEST,
    OBSERVATIONS,
    RUNS,
    SERIES,
    SESSIONS,
    ArtifactLine,
    trace_path,
)
from app.bundle.tables import OBSERVATION_SCHEMA, SERIES_SCHEMA, Table, observations_of, series_of
from app.domain.errors import DomainError
from app.domain.evidence import ExperimentEvidence, RequestLabels, RunEvidence, SessionEvidence, labels_of, split
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.series import Series
from app.domain.trace import RequestStream, read_requests
from app.domain.trace_scan import split_lines

OBSERVATIONS_KEPT: Final = 40_000
"""Decoded at once, each some kilobytes."""
SERIES_KEPT: Final = 4_000
CHUNK_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 64 << 20

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
Groups = Mapping[int, tuple[list[int], int]]
"""Run → its row groups and how many rows they have together."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All of a bundle but its report."""

    manifest: Manifest
    sessions: tuple[SessionEvidence, ...]
    """Those that diagnose are among them."""
    runs: tuple[RunEvidence, ...]
    """Without observations and series."""
    artifacts: tuple[ArtifactLine, ...]
    observations: GroupedFile[RequestObservation]
    series: GroupedFile[Series]
    labels: dict[str, tuple[RequestLabels, ...]]
    content_valid: dict[str, bool]

    def evidence(self) -> ExperimentEvidence:
        """What the analysis reads. Raises ``ValueError`` where a table names a run that is not there."""
        seen, sampled = groups_of(self.observations), groups_of(self.series)
        if unknown := [run for run in {*seen, *sampled} if not 0 <= run < len(self.runs)]:
            raise ValueError(f"rows of run {min(unknown)}, of which there are {len(self.runs)}")
        runs = (
            run.model_copy(
                update={
                    "observations": _stored(self.observations, seen, number),
                    "series": _stored(self.series, sampled, number),
                }
            )
            for number, run in enumerate(self.runs)
        )
        return ExperimentEvidence.model_construct(
            manifest=self.manifest,
            labels=self.labels,
            content_valid=self.content_valid,
            **split(self.sessions),
            runs=tuple(runs),
        )


class ContentsUnreadable(ValueError):
    """A member is not what it should be; the message begins with its path."""


def open_contents(directory: Path) -> Contents:
    """Open what ``BundleWriter`` wrote. Raises ``ContentsUnreadable``."""
    with _reading(MANIFEST):
        manifest = Manifest.model_validate_json((directory / MANIFEST).read_bytes())
    headers, labels = dict[str, bool](), dict[str, tuple[RequestLabels, ...]]()
    for workload in manifest.workloads:
        with _reading(trace_path(workload.trace)):
            stream = _stream(directory / trace_path(workload.trace))
            headers[workload.name], labels[workload.name] = stream.header.content_valid, labels_of(stream)
    return Contents(
        manifest=manifest,
        sessions=_lines(directory, SESSIONS, SessionEvidence),
        runs=_lines(directory, RUNS, RunEvidence),
        artifacts=_lines(directory, ARTIFACTS, ArtifactLine),
        observations=_table(directory, OBSERVATIONS, OBSERVATION_SCHEMA, observations_of, OBSERVATIONS_KEPT),
        series=_table(directory, SERIES, SERIES_SCHEMA, series_of, SERIES_KEPT),
        labels=labels,
        content_valid=headers,
    )


@contextmanager
def _reading(path: str) -> Generator[None]:
    try:
        yield
    except (ValueError, OSError, DomainError, KeyError, pa.ArrowException, StopIteration) as error:
        raise ContentsUnreadable(f"{path}: it cannot be read: {' '.join(str(error).split())[:300]}") from error


def groups_of(file: GroupedFile[Any]) -> Groups:
    """Where each run's rows are."""
    places: dict[int, list[int]] = defaultdict(list)
    counts: dict[int, int] = defaultdict(int)
    for number, (run, rows) in enumerate(file.places()):
        places[run].append(number)
        counts[run] += rows
    return {run: (groups, counts[run]) for run, groups in places.items()}


def _stored(file: GroupedFile[Any], groups: Groups, run: int) -> Sequence[Any]:
    """Typed as the tuple that the evidence has, and read in the same ways."""
    numbers, rows = groups.get(run, ([], 0))
    return cast("tuple[Any, ...]", Stored(file, numbers, rows))


def read_trace(directory: Path, trace: str) -> RequestStream:
    """A workload's requests, to be read once."""
    return _stream(directory / trace_path(trace))


def _stream(path: Path) -> RequestStream:
    return read_requests(split_lines(_chunks(path)))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _lines(directory: Path, name: str, model: type[M]) -> tuple[M, ...]:
    with _reading(name), (directory / name).open("rb") as file:
        return tuple(model.model_validate_json(line) for line in iter(lambda: file.readline(LINE_BYTES_MAX), b""))


def _table(
    directory: Path, name: str, schema: Any, decode: Callable[[Table], Iterable[T]], kept: int
) -> GroupedFile[T]:
    with _reading(name):
        return GroupedFile(directory / name, schema, decode, kept)
