"""Bundles made of evidence in memory, and the ways in which somebody may change one afterwards."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.bundle.archive import pack, unpack
from app.bundle.contents import open_contents
from app.bundle.index import ARTIFACTS, INDEX, OBSERVATIONS, ArtifactLine, BundleIndex, RunIndex, artifact_path
from app.bundle.writing import digests_of, index_of, write_evidence, write_index
from app.domain.canonical import canonical_model
from app.domain.evidence import ExperimentEvidence
from app.domain.report import build_report
from app.domain.trace import Trace
from app.evidence.chunks import RAW_CHUNKS

Change = Callable[[Path], None]


Raw = dict[str, tuple[int, Path]]
"""Digest → whose raw chunks (a run's place) and where they are."""


def make_bundle(
    directory: Path, evidence: ExperimentEvidence, traces: dict[str, Trace], raw: Raw | None = None
) -> Path:
    """The bundle of an experiment, as the service makes it."""
    members, archive = directory / "members", directory / "bundle.tar.zst"
    members.mkdir()
    report = canonical_model(build_report(evidence))
    write_evidence(members, evidence, traces, report)
    if raw:
        _add_raw(members, raw, report)
    pack(members, archive)
    return archive


def _add_raw(members: Path, raw: Raw, report: bytes) -> None:
    index = BundleIndex.model_validate_json((members / INDEX).read_bytes())
    with (members / ARTIFACTS).open("ab") as lines:
        for sha256, (run, path) in raw.items():
            (members / "artifacts").mkdir(exist_ok=True)
            shutil.copy(path, members / artifact_path(sha256))
            line = ArtifactLine(kind=RAW_CHUNKS, sha256=sha256, bytes=path.stat().st_size, run=run, included=True)
            lines.write(canonical_model(line) + b"\n")
    write_index(members, index.experiment, report, index.analysis_version, index.runs)


def changed(archive: Path, change: Change, *, members: bool = False, runs: bool = False) -> Path:
    """A copy with changed members; whoever changed it may have made the members' and the runs' digests anew."""
    place = archive.with_name(f"changed-{len([*archive.parent.iterdir()])}")
    place.mkdir()
    index = unpack(archive, place).index
    change(place)
    if members:
        indexed = _runs_of(place, index) if runs else index.runs
        index = index_of(place, index.experiment, index.analysis_version, indexed)
    (place / INDEX).write_bytes(canonical_model(index))
    forged = archive.with_name(f"{place.name}.tar.zst")
    pack(place, forged)
    return forged


def edited_report(edit: Callable[[dict[str, Any]], None]) -> Change:
    """Change the report as data."""

    def change(place: Path) -> None:
        report = json.loads((place / "report.json").read_bytes())
        edit(report)
        text = json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        (place / "report.json").write_text(text)

    return change


def edited_rows(edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Change:
    """Change the table of observations, row group by row group."""

    def change(place: Path) -> None:
        file = pq.ParquetFile(place / OBSERVATIONS)
        groups = [file.read_row_group(number).to_pylist() for number in range(file.num_row_groups)]
        schema = file.schema_arrow
        with pq.ParquetWriter(place / OBSERVATIONS, schema, compression="zstd") as writer:
            for group in groups:
                if rows := edit(group):
                    writer.write_table(pa.Table.from_pylist(rows, schema=schema))

    return change


def _runs_of(place: Path, index: BundleIndex) -> tuple[RunIndex, ...]:
    contents = open_contents(place)
    seen, sampled = digests_of(contents.observations.tables()), digests_of(contents.series.tables())
    return tuple(
        run.model_copy(
            update={
                "observations": seen[number][0],
                "observations_sha256": seen[number][1],
                "series": sampled[number][0] if number in sampled else run.series,
                "series_sha256": sampled[number][1] if number in sampled else run.series_sha256,
            }
        )
        for number, run in enumerate(index.runs)
    )
