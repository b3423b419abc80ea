"""Recompute every digest and every number of a bundle, and say of each that is wrong where it is.

Nothing is taken on trust: not the index (the trace says which requests each run must have), not the report (it is
computed again from the evidence).
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from app.bundle.archive import BundleUnreadable, Unpacked, unpack
from app.bundle.contents import Contents, ContentsUnreadable, open_contents
from app.bundle.differences import differences
from app.bundle.groups import GroupedFile
from app.bundle.index import (
    ARTIFACTS,
    MANIFEST,
    OBSERVATIONS,
    REPORT,
    REQUIRED,
    RUNS,
    SERIES,
    RunIndex,
    artifact_path,
    name_of,
    trace_path,
)
from app.bundle.scores import score_problems
from app.bundle.tables import request_ids
from app.bundle.writing import digests_of
from app.domain.canonical import canonical_json, canonical_model, digest
from app.domain.errors import DomainError
from app.domain.evidence import RunEvidence
from app.domain.lifecycle import RunState
from app.domain.report import ANALYSIS_VERSION, build_report
from app.evidence.chunks import RAW_CHUNKS, unlike_chunks

TOLD_MAX: Final = 20
"""Of one kind of problem; how many more there are is said."""
NAMED_MAX: Final = 3
_EMPTY: Final = digest(b"")
"""Over no tables."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found. Without ``problems`` every digest and every number of the report follows from the evidence."""

    problems: tuple[str, ...]
    root: str | None = None
    experiment: str | None = None
    accelerator: str | None = None
    observations: int = 0
    runs: int = 0
    report: bytes | None = None
    """As JSON; only where nothing is wrong, so that whoever reads it reads what the evidence gives."""


def verify(archive: Path) -> Verified:
    """Look at everything in a bundle; needs no server, and room on the disk for what it unpacks to."""
    with tempfile.TemporaryDirectory(prefix="verdraft-verify-") as scratch:
        try:
            unpacked = unpack(archive, Path(scratch))
        except (BundleUnreadable, OSError) as error:
            return Verified((f"{archive}: {error}",))
        contents, told = look_at_evidence(Path(scratch), unpacked)
        if contents is None:
            return Verified(tuple(told), unpacked.root, unpacked.index.experiment)
        told += _telling(REPORT, unpacked, _report_problems(Path(scratch), unpacked, contents))
        report = None if told else (Path(scratch) / REPORT).read_bytes()
    return Verified(
        tuple(told),
        unpacked.root,
        unpacked.index.experiment,
        accelerator_of(contents),
        sum(run.observations for run in unpacked.index.runs),
        len(unpacked.index.runs),
        report,
    )


def look_at_evidence(directory: Path, unpacked: Unpacked) -> tuple[Contents | None, list[str]]:
    """All but whether the report follows: what is in it, ``None`` where that cannot be read, and what is wrong."""
    told = [*_member_problems(unpacked)]
    try:
        contents = open_contents(directory)
    except ContentsUnreadable as error:
        told += [] if str(error).partition(":")[0] in unpacked.problems else [str(error)]
        return None, told
    return contents, [*told, *_content_problems(directory, unpacked, contents)]


def accelerator_of(contents: Contents) -> str:
    """What it was measured on: as its driver names it, or as the manifest pins it."""
    models = {device.model for session in contents.sessions for device in session.devices}
    return ", ".join(sorted(models)) or contents.manifest.hardware.accelerator


def _member_problems(unpacked: Unpacked) -> Iterator[str]:
    for path, problem in unpacked.problems.items():
        yield f"{path}: {problem}"
    named = {member.path for member in unpacked.index.members}
    for path in sorted(set(REQUIRED) - named):
        yield f"{path}: the index does not name it"


def _content_problems(directory: Path, unpacked: Unpacked, contents: Contents) -> Iterator[str]:
    yield from _identity_problems(unpacked, contents)
    yield from _artifact_problems(unpacked, contents)
    names = [name_of(run) for run in contents.runs]
    if names != [run.run for run in unpacked.index.runs]:
        yield f"{RUNS}: it lists other runs than the index"
        return
    rows = [
        *_telling(OBSERVATIONS, unpacked, _row_problems(contents, unpacked.index.runs)),
        *_telling(SERIES, unpacked, _series_problems(contents.series, unpacked.index.runs)),
    ]
    yield from rows
    yield from _telling(OBSERVATIONS, unpacked, _chunk_problems(directory, contents))
    yield from _telling(RUNS, unpacked, score_problems(directory, contents))


def _telling(path: str, unpacked: Unpacked, problems: Iterator[str]) -> Iterator[str]:
    """Of a member that is known to be damaged, that it cannot be read is no news."""
    try:
        yield from problems
    except (ValueError, OSError, KeyError, RecursionError, pa.ArrowException) as error:
        if not unpacked.problems:
            yield f"{path}: it cannot be read: {' '.join(str(error).split())[:300]}"


def _identity_problems(unpacked: Unpacked, contents: Contents) -> Iterator[str]:
    experiment = unpacked.index.experiment
    if contents.manifest.digest != experiment:
        yield f"{MANIFEST}: its digest is {contents.manifest.digest}, the bundle is of {experiment}"
    stated = {member.path: member.sha256 for member in unpacked.index.members}
    for workload in contents.manifest.workloads:
        path = trace_path(workload.trace)
        if stated.get(path) != workload.trace:
            yield f"{path}: it is not the trace of workload {workload.name}, its digest is {stated.get(path)}"


def _artifact_problems(unpacked: Unpacked, contents: Contents) -> Iterator[str]:
    """What sessions refer to must be listed, and what is listed as included must be here under its own digest."""
    members = {m.path: m.sha256 for m in unpacked.index.members if m.path.startswith("artifacts/")}
    included = {artifact_path(line.sha256): line.sha256 for line in contents.artifacts if line.included}
    for path in sorted({*members, *included}):
        if members.get(path) != included.get(path):
            yield f"{path}: {ARTIFACTS} and the index disagree about it"
    listed = {line.sha256 for line in contents.artifacts}
    for session in contents.sessions:
        if session.log_sha256 is not None and session.log_sha256 not in listed:
            yield f"{ARTIFACTS}: the log of block {session.block + 1}/{session.arm} is not listed"


def _row_problems(contents: Contents, stated: tuple[RunIndex, ...]) -> Iterator[str]:
    whose: dict[int, list[str]] = {}
    found = digests_of(_noting_ids(contents.observations, whose))
    expected = _requests_by_load(contents)
    for number, (run, index) in enumerate(zip(contents.runs, stated, strict=True)):
        rows, sha256 = found.pop(number, (0, _EMPTY))
        missing = [*_request_problems(run, whose.get(number, ()), expected.get((run.workload, run.load), set()))]
        yield from (f"{OBSERVATIONS}: {index.run}: {words}" for words in missing)
        if rows != index.observations:
            yield f"{OBSERVATIONS}: {index.run}: {rows} observations, the index says {index.observations}"
        elif sha256 != index.observations_sha256:
            yield f"{OBSERVATIONS}: {index.run}: its observations are not those that the index was made of"
    yield from (f"{OBSERVATIONS}: rows of run {number}, which is not in {RUNS}" for number in sorted(found))


def _noting_ids(file: GroupedFile[Any], whose: dict[int, list[str]]) -> Iterator[tuple[int, Any]]:
    for run, table in file.tables():
        whose.setdefault(run, []).extend(request_ids(table))
        yield run, table


def _requests_by_load(contents: Contents) -> Mapping[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for workload, labels in contents.labels.items():
        for label in labels:
            found.setdefault((workload, label.load), set()).add(label.request_id)
    return found


def _request_problems(run: RunEvidence, ids: Iterable[str], expected: set[str]) -> Iterator[str]:
    """A run that was measured to its end has one observation for each request that its trace offers at its load."""
    seen = Counter(ids)
    missing = expected - seen.keys() if run.state is RunState.SUCCEEDED else set[str]()
    for words, which in (
        ("is missing", missing),
        ("is not of its trace", seen.keys() - expected),
        ("is there more than once", {request for request, times in seen.items() if times > 1}),
    ):
        if which:
            yield f"request {_named(which)} {words}"


def _named(requests: Iterable[str]) -> str:
    ordered = sorted(requests)
    more = f" and {len(ordered) - NAMED_MAX} more" if len(ordered) > NAMED_MAX else ""
    return ", ".join(ordered[:NAMED_MAX]) + more


def _series_problems(file: GroupedFile[Any], stated: tuple[RunIndex, ...]) -> Iterator[str]:
    found = digests_of(file.tables())
    for number, index in enumerate(stated):
        if found.pop(number, (0, _EMPTY)) != (index.series, index.series_sha256):
            yield f"{SERIES}: {index.run}: its series are not those that the index was made of"
    yield from (f"{SERIES}: rows of run {number}, which is not in {RUNS}" for number in sorted(found))


def _chunk_problems(directory: Path, contents: Contents) -> Iterator[str]:
    """Where the raw chunks are in the bundle, observations must be what was received, chunk by chunk."""
    runs = contents.evidence().runs
    for line in contents.artifacts:
        if line.kind == RAW_CHUNKS and line.included and line.run is not None and 0 <= line.run < len(runs):
            run = runs[line.run]
            if unlike := [*unlike_chunks(directory / artifact_path(line.sha256), run.observations)]:
                yield f"{OBSERVATIONS}: {name_of(run)}: request {_named(unlike)} is not what the raw chunks say"


def _report_problems(directory: Path, unpacked: Unpacked, contents: Contents) -> Iterator[str]:
    if unpacked.index.analysis_version != ANALYSIS_VERSION:
        theirs = unpacked.index.analysis_version
        yield (
            f"{REPORT}: made by analysis {theirs}, and this is {ANALYSIS_VERSION}: verify it with the version of then, "
            "or give its evidence a report of now (`verdraft reanalyse`)"
        )
        return
    stated = (directory / REPORT).read_bytes()
    try:
        recomputed = canonical_model(build_report(contents.evidence()))
    except DomainError as error:
        yield f"{REPORT}: the evidence allows no report: {error}"
        return
    if stated == recomputed:
        return
    if stated != canonical_json(json.loads(stated)):
        yield f"{REPORT}: it is not canonical JSON, so readers may disagree about what it states"
    apart = differences(json.loads(stated), json.loads(recomputed))
    shown = [*islice(apart, TOLD_MAX)]
    for path, theirs, ours in shown:
        yield f"{REPORT}: {path}: it states {theirs}, the evidence gives {ours}"
    if more := sum(1 for _ in apart):
        yield f"{REPORT}: {more} more values differ"
