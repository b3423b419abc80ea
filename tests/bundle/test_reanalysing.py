"""An older bundle goes over to the analysis of now with its evidence as it was, or not at all."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.bundle.archive import pack, root_of, unpack
from app.bundle.index import INDEX, REPORT
from app.bundle.reanalysing import Reanalysed, reanalyse
from app.bundle.verifying import verify
from app.bundle.writing import write_index
from app.cli import app
from app.domain.evidence import labels_of
from app.domain.report import ANALYSIS_VERSION
from tests.bundle.making import changed, edited_rows, make_bundle
from tests.bundle.test_bundle import REQUESTS, RUN, make_workload, members_of, without_a_row
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this analysis."""
    trace = make_workload()
    manifest = make_manifest(workloads=[{"name": "copy", "trace": trace.digest}], blocks=2)
    evidence = make_evidence(Dials(manifest=manifest, requests=REQUESTS))
    evidence = evidence.model_copy(update={"labels": {"copy": labels_of(trace)}})
    return make_bundle(tmp_path_factory.mktemp("now"), evidence, {trace.digest: trace})


@pytest.fixture(scope="module")
def older(now: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same evidence, with the report of an analysis that nobody has here."""
    place = tmp_path_factory.mktemp("older")
    members = place / "members"
    members.mkdir()
    index = unpack(now, members).index
    write_index(members, index.experiment, b'{"analysis_version":"0.1"}', "0.1", index.runs)
    pack(members, place / "older.tar.zst")
    return place / "older.tar.zst"


def test_its_evidence_is_kept_byte_for_byte_and_its_report_is_made_anew(now: Path, older: Path, tmp_path: Path) -> None:
    (problem,) = verify(older).problems
    assert "verdraft reanalyse" in problem
    output = tmp_path / "new.tar.zst"
    made = reanalyse(older, output)
    assert made == Reanalysed((), root_of(older), "0.1", root_of(output))
    assert verify(output).problems == ()
    before, after = members_of(older), members_of(output)
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {INDEX, REPORT}
    assert after == members_of(now)


def test_evidence_that_does_not_verify_goes_nowhere(older: Path, tmp_path: Path) -> None:
    forged = changed(older, edited_rows(without_a_row), members=True, runs=True)
    output = tmp_path / "new.tar.zst"
    made = reanalyse(forged, output)
    assert made.problems == (f"observations.parquet: {RUN}: request low-3 is missing",)
    assert not output.exists()


def test_a_flipped_byte_is_found_before_anything_is_made(older: Path, tmp_path: Path) -> None:
    def flip(place: Path) -> None:
        content = bytearray((place / "sessions.jsonl").read_bytes())
        content[len(content) // 2] ^= 1
        (place / "sessions.jsonl").write_bytes(content)

    made = reanalyse(changed(older, flip), tmp_path / "new.tar.zst")
    assert any(words.startswith("sessions.jsonl: sha256 is ") for words in made.problems)


def test_what_is_of_now_already_and_what_is_there_already_is_left_alone(now: Path, older: Path, tmp_path: Path) -> None:
    (current,) = reanalyse(now, tmp_path / "new.tar.zst").problems
    assert current.endswith("as this is: verify it")
    there = tmp_path / "there"
    there.write_text("mine")
    (occupied,) = reanalyse(older, there).problems
    assert occupied.endswith("it is there already")
    assert there.read_text() == "mine"


def test_the_command_says_both_roots_and_refuses_what_does_not_verify(older: Path, tmp_path: Path) -> None:
    output = tmp_path / "new.tar.zst"
    done = CliRunner().invoke(app, ["reanalyse", str(older), "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert f"was: {root_of(older)} (analysis 0.1)" in done.output
    assert f"root: {root_of(output)} (analysis {ANALYSIS_VERSION})" in done.output
    again = CliRunner().invoke(app, ["reanalyse", str(output), "-o", str(tmp_path / "newer.tar.zst")])
    assert again.exit_code == 1
