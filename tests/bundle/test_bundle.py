"""A bundle verifies as it is, and whatever is changed in it is told, by name and by place."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from app.bundle.archive import root_of
from app.bundle.contents import open_contents
from app.bundle.index import INDEX
from app.bundle.verifying import Verified, verify
from app.bundle.writing import write_evidence
from app.domain.canonical import digest
from app.domain.evidence import ExperimentEvidence, labels_of
from app.domain.observation import RequestObservation
from app.domain.trace import Trace, parse_trace
from app.evidence.chunks import write_chunks
from tests.bundle.making import Change, changed, edited_report, edited_rows, make_bundle
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest
from tests.factories import encode_lines, trace_lines
from tests.factories_verification import RECORD

LOADS = ({"name": "low", "rate_rps": 1.0}, {"name": "high", "rate_rps": 2.0})
REQUESTS = 12


def make_workload() -> Trace:
    """The trace of the factory's evidence."""
    lines = trace_lines(name="copy", loads=LOADS, requests=REQUESTS, warmup=1)
    for line in lines[1:]:
        place = int(line["request_id"].rpartition("-")[2])
        line |= {"request_id": f"{line['load']}-{place}", "reference": f"answer {place}"}
        line["strata"] = {"task": "ab"[place % 2]}
    return parse_trace(encode_lines(lines))


@pytest.fixture(scope="module")
def measured() -> tuple[ExperimentEvidence, dict[str, Trace]]:
    """Two blocks of two arms at two loads, with awkward answers."""
    trace = make_workload()
    manifest = make_manifest(workloads=[{"name": "copy", "trace": trace.digest}], blocks=2)
    evidence = make_evidence(Dials(manifest=manifest, requests=REQUESTS))
    first, *others = evidence.runs
    seen, *rest = first.observations
    odd = seen.model_copy(update={"text": "nul \x00 é 漢 \U0001f600", "logprobs": (-0.5, 0.0)})
    first = first.model_copy(update={"observations": (odd, *rest)})
    changes = {
        "runs": (first.model_copy(update={"scorer": "exact/1", "scores": {seen.request_id: 0.5}}), *others),
        "labels": {"copy": labels_of(trace)},
        "sessions": tuple(s.model_copy(update={"verification": RECORD}) for s in evidence.sessions),
        "diagnoses": (evidence.sessions[0].model_copy(update={"diagnosing": True, "position": 2}),),
    }
    return evidence.model_copy(update=changes), {trace.digest: trace}


@pytest.fixture(scope="module")
def bundle(measured: tuple[ExperimentEvidence, dict[str, Trace]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("bundle"), *measured)


def plain(observation: RequestObservation) -> RequestObservation:
    """What is compact in memory as the tuples that it stands for."""
    return observation.model_copy(update={"chunk_ns": tuple(observation.chunk_ns)})


def told(archive: Path) -> tuple[str, ...]:
    return verify(archive).problems


def test_a_bundle_verifies_and_names_its_root_and_accelerator(
    bundle: Path, measured: tuple[ExperimentEvidence, dict[str, Trace]]
) -> None:
    found = verify(bundle)
    named = Verified((), root_of(bundle), measured[0].manifest.digest, "cpu", 8 * REQUESTS, 8, found.report)
    assert found == named
    assert found.report == members_of(bundle)["report.json"]
    assert root_of(bundle) == digest(members_of(bundle)[INDEX])


def test_the_evidence_comes_back_exactly_and_twice_as_the_same_bytes(
    measured: tuple[ExperimentEvidence, dict[str, Trace]], bundle: Path, tmp_path: Path
) -> None:
    evidence, traces = measured
    write_evidence(tmp_path, evidence, traces, b"{}")
    again = open_contents(tmp_path).evidence()
    assert [tuple(map(plain, run.observations)) for run in again.runs] == [run.observations for run in evidence.runs]
    assert [tuple(run.series) for run in again.runs] == [run.series for run in evidence.runs]
    bare = {"observations": (), "series": ()}
    assert [r.model_copy(update=bare) for r in again.runs] == [r.model_copy(update=bare) for r in evidence.runs]
    assert (again.manifest, again.labels) == (evidence.manifest, evidence.labels)
    assert (again.sessions, again.diagnoses) == (evidence.sessions, evidence.diagnoses)
    (tmp_path / "second").mkdir()
    assert make_bundle(tmp_path / "second", evidence, traces).read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize("member", ["manifest.json", "report.json", "sessions.jsonl", "runs.jsonl", "series.parquet"])
def test_one_flipped_byte_names_the_member(bundle: Path, member: str) -> None:
    def flip(place: Path) -> None:
        content = bytearray((place / member).read_bytes())
        content[len(content) // 2] ^= 1
        (place / member).write_bytes(content)

    assert any(words.startswith(f"{member}: sha256 is ") for words in told(changed(bundle, flip)))


def test_a_flipped_byte_of_the_archive_itself_is_told(bundle: Path, tmp_path: Path) -> None:
    content = bundle.read_bytes()
    for place in range(10, len(content), len(content) // 23):
        forged = tmp_path / "flipped.tar.zst"
        forged.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        assert told(forged) != (), place


RUN = "block 1/target-only/copy/low/attempt 1"


def without_a_row(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["run"], row["request_id"]) != (0, "low-3")]


@pytest.mark.parametrize(("members", "runs"), [(False, False), (True, False), (True, True)])
def test_one_dropped_row_names_the_run_and_the_request_whatever_was_recomputed(
    bundle: Path, members: bool, runs: bool
) -> None:
    found = told(changed(bundle, edited_rows(without_a_row), members=members, runs=runs))
    assert f"observations.parquet: {RUN}: request low-3 is missing" in found
    counted = f"observations.parquet: {RUN}: {REQUESTS - 1} observations, the index says {REQUESTS}"
    assert (counted in found) is not runs


def test_a_row_that_is_there_twice_or_of_no_trace_is_named(bundle: Path) -> None:
    def twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*rows, {**rows[0], "request_id": "made-up"}, rows[1]] if rows[0]["run"] == 0 else rows

    found = told(changed(bundle, edited_rows(twice), members=True, runs=True))
    assert f"observations.parquet: {RUN}: request made-up is not of its trace" in found
    assert f"observations.parquet: {RUN}: request low-1 is there more than once" in found


def faster(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make one answer of the arm end sooner."""
    return [
        row
        | ({"end_ns": row["end_ns"] - 9_000_000, "chunk_ns": [at - 9_000_000 for at in row["chunk_ns"]]} if hit else {})
        for row in rows
        for hit in [row["run"] == 2 and row["request_id"] == "low-5"]
    ]


def test_an_edited_observation_names_its_run(bundle: Path) -> None:
    found = told(changed(bundle, edited_rows(faster), members=True))
    place = "observations.parquet: block 1/ngram/copy/low/attempt 1"
    assert f"{place}: its observations are not those that the index was made of" in found


def test_an_edited_observation_names_what_no_longer_follows_when_all_digests_were_recomputed(bundle: Path) -> None:
    found = told(changed(bundle, edited_rows(faster), members=True, runs=True))
    assert found
    assert all(words.startswith("report.json: ") for words in found)
    assert any("comparisons[" in words and "the evidence gives" in words for words in found)


def edit_a_ratio(report: dict[str, Any]) -> None:
    report["comparisons"][0]["ratio"]["value"] = 1.5


@pytest.mark.parametrize("members", [False, True])
def test_an_edited_number_names_its_path_with_both_values(
    bundle: Path, measured: tuple[ExperimentEvidence, dict[str, Trace]], members: bool
) -> None:
    found = told(changed(bundle, edited_report(edit_a_ratio), members=members))
    (words,) = [w for w in found if w.startswith("report.json: comparisons[0].ratio.value: it states 1.5, ")]
    assert float(words.rpartition(" ")[2]) != 1.5
    assert len(found) == (1 if members else 2)


def test_a_sentence_that_does_not_follow_is_told(bundle: Path) -> None:
    def edit(report: dict[str, Any]) -> None:
        report["recommendation"]["sentence"] = "Always use ngram."

    (words,) = told(changed(bundle, edited_report(edit), members=True))
    assert words.startswith('report.json: recommendation.sentence: it states "Always use ngram.", the evidence gives')


@pytest.mark.parametrize(
    ("change", "start"),
    [
        (lambda p: (p / "report.json").write_text(' {"a": 1}'), "report.json: it is not canonical JSON"),
        (lambda p: (p / "report.json").write_text("[" * 100_000), "report.json: it cannot be read"),
        (lambda p: (p / "series.parquet").write_bytes(b"PAR1 no"), "series.parquet: it cannot be read"),
        (lambda p: (p / "runs.jsonl").write_text("{}\n"), "runs.jsonl: it cannot be read"),
        (lambda p: (p / "sessions.jsonl").unlink(), "sessions.jsonl: the index does not name it"),
    ],
)
def test_members_that_are_none_are_told(bundle: Path, change: Change, start: str) -> None:
    assert any(words.startswith(start) for words in told(changed(bundle, change, members=True)))


@pytest.mark.parametrize("forged", [False, True])
def test_an_edited_observation_is_held_to_the_raw_chunks(
    measured: tuple[ExperimentEvidence, dict[str, Trace]], tmp_path: Path, forged: bool
) -> None:
    """Also when every digest but that of the raw file, which others may have, was made anew."""
    evidence, traces = measured
    chunks = tmp_path / "chunks"
    write_chunks(chunks, evidence.runs[2].observations)
    raw = {digest(chunks.read_bytes()): (2, chunks)}
    whole = make_bundle(tmp_path, evidence, traces, raw)
    assert told(whole) == ()
    if forged:
        found = told(changed(whole, edited_rows(faster), members=True, runs=True))
        assert (
            "observations.parquet: block 1/ngram/copy/low/attempt 1: request low-5 is not what the raw chunks say"
            in found
        )


def members_of(archive: Path) -> dict[str, bytes]:
    plain = zstandard.ZstdDecompressor().stream_reader(archive.open("rb"))
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        return {entry.name: content.read() for entry in tar if (content := tar.extractfile(entry)) is not None}


def archived(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(zstandard.compress(plain.getvalue()))
    return path


@pytest.mark.parametrize("name", ["../outside", "/outside", "artifacts/../../outside", "traces/x.jsonl"])
def test_nothing_is_written_outside(bundle: Path, tmp_path: Path, name: str) -> None:
    members = members_of(bundle)
    entries = [(tarfile.TarInfo(path), content) for path, content in members.items()]
    forged = archived(tmp_path / "forged.tar.zst", *entries, (tarfile.TarInfo(name), b"escaped"))
    assert told(forged) == (f"{name}: not in the index, or there twice, or not a plain file",)
    renamed = members[INDEX].replace(b'"report.json"', f'"{name}"'.encode())
    forged = archived(tmp_path / "forged.tar.zst", (tarfile.TarInfo(INDEX), renamed), *entries[1:])
    assert "index.json cannot be read" in told(forged)[0]
    assert not [*tmp_path.rglob("outside"), *tmp_path.parent.glob("outside")]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_no_plain_file_is_refused(bundle: Path, tmp_path: Path, kind: bytes) -> None:
    entries = [(tarfile.TarInfo(path), content) for path, content in members_of(bundle).items()]
    odd = tarfile.TarInfo("report.json")
    odd.type, odd.linkname = kind, "/etc/passwd"
    kept = [(entry, content) for entry, content in entries if entry.name != "report.json"]
    found = told(archived(tmp_path / "forged.tar.zst", *kept, (odd, b"")))
    assert "report.json: not in the index, or there twice, or not a plain file" in found


def test_a_bundle_that_claims_to_be_huge_is_not_unpacked(bundle: Path) -> None:
    def swell(place: Path) -> None:
        (place / "report.json").write_bytes(b"0" * ((256 << 20) + 1))

    assert "claim to unpack to" in told(changed(bundle, swell, members=True))[0]


NOT_BUNDLES: list[Callable[[], bytes]] = [
    lambda: b"",
    lambda: b"nonsense",
    lambda: zstandard.compress(b"nonsense"),
    lambda: zstandard.compress(b""),
]


@pytest.mark.parametrize("content", NOT_BUNDLES)
def test_what_is_no_bundle_is_told_and_not_raised(content: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.zst"
    path.write_bytes(content())
    assert len(told(path)) == len(told(tmp_path / "missing")) == 1


def test_an_older_format_names_itself(tmp_path: Path) -> None:
    index = b'{"format":"verdraft/bundle/v0","members":[]}'
    (words,) = told(archived(tmp_path / "old.tar.zst", (tarfile.TarInfo(INDEX), index)))
    assert "its format is verdraft/bundle/v0" in words
