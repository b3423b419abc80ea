"""``verdraft check`` as a whole on the fake engine: what it starts, what it says, and what it leaves behind."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.domain.errors import DomainError
from app.settings import PROJECT_ROOT, Settings
from tests.factories import BASELINE, NGRAM, make_manifest
from tests.fakes.mutations import mutate
from tests.fakes.runtime import make_fake_runtime
from tests.worker.regression.conftest import make_faithful
from worker.accelerators import whole_host
from worker.cli import app
from worker.identity import hardware, inspect_runtime, software
from worker.matrix.conduct import open_matrix
from worker.matrix.models import TARGET
from worker.models import model_digest
from worker.regression.document import CASES_MARK, write_matrix
from worker.regression.planning import Asked, make_plan
from worker.regression.suite import CASES, OUT_OF_REACH, cases_named
from worker.regression.table import case_list
from worker.regression.verdicts import RegressionMatrix, Status

FAKE = "fake"


@dataclass(frozen=True, slots=True)
class Host:
    """A host with the bundled models and a fake runtime whose engines are faithful until a mutation says otherwise."""

    settings: Settings
    model: Path

    def check(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["check", FAKE, *arguments])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    make_fake_runtime(tmp_path / "runtimes" / FAKE)
    monkeypatch.setenv("VERDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(tmp_path / "runtimes"))
    settings = Settings()
    model = open_matrix(settings, FAKE, fresh=False, say=[].append).settings.model_root / TARGET
    (model / "fake.json").write_text(json.dumps({"is_faithful": True}))
    return Host(settings, model)


def matrix_in(path: Path) -> RegressionMatrix:
    return RegressionMatrix.model_validate_json(path.read_text())


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "matrix.json"


def test_a_case_that_fails_is_told_with_its_evidence_and_the_command_that_shows_it_alone(
    host: Host, kept: Path
) -> None:
    mutate(host.model, "ngram", "wrong_token")
    asked = ("--method", "ngram", "--case", "greedy-equality", "--case", "empty-prompt", "--json", str(kept))
    answer = host.check(*asked)
    assert answer.exit_code == 1
    alone = f"verdraft check {FAKE} --method ngram --case greedy-equality"
    assert alone in answer.stdout
    found = matrix_in(kept)
    assert [row.method for row in found.rows] == ["target-only", "ngram"]
    assert [[cell.status for cell in row.cells] for row in found.rows] == [
        [Status.PASSED, Status.PASSED],
        [Status.FAILED, Status.PASSED],
    ]
    ((row, cell),) = found.fails
    assert (row.method, cell.reproduce) == ("ngram", alone)
    assert "differ from position 7 on" in cell.words
    assert cell.expected != cell.found
    assert '"temperature": 0' in cell.request
    assert row.accepted is not None

    assert host.check(*alone.split()[3:]).exit_code == 1


def test_an_engine_that_dies_of_its_canary_refuses_every_case(host: Host, kept: Path) -> None:
    mutate(host.model, "target_only", "dies")
    host.check("--method", "target-only", "--case", "one-token", "--case", "echo", "--json", str(kept))
    (row,) = matrix_in(kept).rows
    assert {cell.status for cell in row.cells} == {Status.REFUSED}
    assert "the simulated engine was told to die" in row.startup_words


def test_a_death_in_a_case_is_that_cases_fail_with_the_logs_words(host: Host, kept: Path) -> None:
    mutate(host.model, "ngram", "dies_of_stops")
    asked = ("--case", "stop-string-text", "--case", "one-token", "--case", "max-tokens-exact", "--json", str(kept))
    answer = host.check("--method", "ngram", *asked)
    assert answer.exit_code == 1
    cells = {cell.case: cell for cell in matrix_in(kept).rows[1].cells}
    assert cells["stop-string-text"].status is Status.FAILED
    assert "the simulated engine was told to die" in cells["stop-string-text"].words
    assert cells["one-token"].status is Status.PASSED
    logs = sorted(path.name for path in (host.settings.home / "regression" / FAKE).iterdir())
    assert logs == ["ngram-1.log", "ngram-2.log", "target-only-1.log"]


def test_after_an_error_of_the_engine_the_next_case_has_a_fresh_server(host: Host, kept: Path) -> None:
    """What such an engine answers next may be wrong for no reason of its method."""
    mutate(host.model, "ngram", "errs_of_stops")
    asked = ("--case", "stop-string-text", "--case", "one-token", "--json", str(kept))
    assert host.check("--method", "ngram", *asked).exit_code == 1
    cells = {cell.case: cell for cell in matrix_in(kept).rows[1].cells}
    assert cells["stop-string-text"].words.startswith("an error of the engine: HTTP 500")
    assert cells["one-token"].status is Status.PASSED
    logs = sorted(path.name for path in (host.settings.home / "regression" / FAKE).iterdir())
    assert logs == ["ngram-1.log", "ngram-2.log", "target-only-1.log"]


def test_a_server_that_is_killed_is_no_success_for_the_client(host: Host, kept: Path) -> None:
    asked = ("--method", "target-only", "--case", "killed-mid-stream", "--json", str(kept))
    assert host.check(*asked).exit_code == 0
    (cell,) = matrix_in(kept).rows[0].cells
    assert (cell.status, cell.words.split()[0]) == (Status.PASSED, "truncated")
    mutate(host.model, "target_only", "pretends_to_end")
    assert host.check(*asked).exit_code == 1
    assert matrix_in(kept).rows[0].cells[0].found == "success"


def test_target_only_that_shows_speculation_fails(host: Host, kept: Path) -> None:
    mutate(host.model, "target_only", "shows_speculation")
    assert host.check("--method", "target-only", "--case", "drafts", "--json", str(kept)).exit_code == 1
    assert matrix_in(kept).rows[0].cells[0].status is Status.FAILED


def test_another_launch_is_started_for_its_own_method_only(host: Host, kept: Path) -> None:
    case = ("--case", "two-vocabularies", "--json", str(kept))
    assert host.check("--method", "draft_model", "--method", "ngram", *case).exit_code == 0
    statuses = {row.method: row.cells[0].status for row in matrix_in(kept).rows}
    assert statuses == {
        "target-only": Status.PASSED,
        "ngram": Status.NOT_APPLICABLE,
        "draft_model": Status.PASSED,
    }


def test_an_engine_that_does_not_start_refuses_every_case(host: Host, kept: Path) -> None:
    dials = {"is_faithful": True, "faults": {"eagle": {"oom_text": True}}}
    (host.model / "fake.json").write_text(json.dumps(dials))
    assert host.check("--method", "eagle", "--case", "echo", "--case", "seeds", "--json", str(kept)).exit_code == 0
    row = matrix_in(kept).rows[-1]
    assert {cell.status for cell in row.cells} == {Status.REFUSED}
    assert "out of memory" in row.startup_words


def test_an_arm_of_a_manifest_is_checked_as_it_is_launched(
    host: Host, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own flags, its baseline as the reference, and no cache of the suite's own."""
    models = tmp_path / "models"
    mutate(make_faithful(models / "target"), "ngram", "wrong_token")
    monkeypatch.setenv("VERDRAFT_MODEL_ROOT", str(models))
    target = f"local:target@sha256:{model_digest(models / 'target')}"
    manifest = make_manifest(
        target_model=target,
        target_tokenizer=target,
        runtime=inspect_runtime(host.settings.runtime_root / FAKE).ref,
        hardware=hardware().model_dump(),
        software=software().model_dump(),
        arms=[BASELINE, NGRAM],
    )
    written = tmp_path / "manifest.json"
    written.write_bytes(manifest.canonical())
    asked = ("--manifest", str(written), "--arm", "ngram-k4", "--case", "greedy-equality", "--json", str(kept))
    answer = host.check(*asked)
    assert kept.exists(), answer.output
    assert answer.exit_code == 1
    found = matrix_in(kept)
    assert [row.method for row in found.rows] == [manifest.baseline.name, "ngram-k4"]
    ((row, cell),) = found.fails
    assert row.method == "ngram-k4"
    assert cell.reproduce == f"verdraft check {FAKE} --manifest {written} --arm {row.method} --case greedy-equality"
    log = (host.settings.home / "regression" / FAKE / f"{row.method}-1.log").read_text()
    assert "num_gpu_blocks_override" not in log
    assert "no arm 'absent'" in host.check("--manifest", str(written), "--arm", "absent").output


async def test_what_is_asked_for_has_to_be_here(host: Host, tmp_path: Path) -> None:
    nothing: Callable[[object], None] = [].append
    for asked, words in (
        (Asked(FAKE, ("nonsense",)), "no method nonsense"),
        (Asked(FAKE, (), ("nonsense",)), "no case nonsense"),
        (Asked(FAKE, (), (), tmp_path / "m.yaml"), "goes with an arm"),
        (Asked("absent"), "absent"),
    ):
        with pytest.raises(DomainError, match=words):
            await make_plan(host.settings, asked, nothing, nothing)


def test_what_is_added_takes_the_place_of_what_was_there(host: Host, kept: Path) -> None:
    told = ("--method", "target-only", "--json", str(kept))
    mutate(host.model, "target_only", "shows_speculation")
    assert host.check(*told, "--case", "drafts", "--case", "one-token").exit_code == 1
    mutate(host.model, "target_only")
    assert host.check(*told, "--case", "drafts", "--case", "echo", "--add").exit_code == 0
    cells = {cell.case: cell.status for cell in matrix_in(kept).rows[0].cells}
    assert cells == dict.fromkeys(("drafts", "one-token", "echo"), Status.PASSED)
    kept.write_text("{}")
    assert "has no matrix to add to" in host.check(*told, "--case", "echo", "--add").output


def test_a_running_experiment_is_not_disturbed(host: Host) -> None:
    with whole_host(host.settings):
        answer = host.check("--method", "target-only", "--case", "echo")
    assert answer.exit_code != 0
    assert "an experiment is running" in answer.output


def test_the_matrix_goes_between_its_marks(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "regression.md"
    marks = (f"regression matrix of {FAKE}", CASES_MARK)
    path.write_text("".join(f"a\n<!-- begin {mark} -->\nformer text\n<!-- end {mark} -->\nb\n" for mark in marks))
    mutate(host.model, "target_only", "wrong_beside_others")
    answer = host.check("--method", "target-only", "--case", "batch-equals-serial", "--out", str(path))
    assert answer.exit_code == 1
    text = path.read_text()
    assert "former text" not in text
    assert "| batch-equals-serial | FAIL |" in text
    assert f"`verdraft check {FAKE} --method target-only --case batch-equals-serial`" in text
    assert text.count("a\n") >= 2
    with pytest.raises(DomainError, match="no place for the regression matrix of other"):
        write_matrix(path, RegressionMatrix(runtime="other", rows=()))


def test_the_page_has_the_cases_of_the_suite() -> None:
    page = (PROJECT_ROOT / "docs" / "regression.md").read_text()
    assert case_list() in page, "write it anew: `verdraft check … --out docs/regression.md`"
    assert "Cells that are no pass" in page


def test_cases_have_names_and_reasons_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert len({case.why for case in CASES}) == len(CASES)
    assert [case.name for case in cases_named(["echo", "seeds"])] == ["seeds", "echo"]
    looked_for = {issue for case in CASES for issue in case.issues}
    out_of_reach = {issue for issues, _ in OUT_OF_REACH for issue in issues}
    assert not looked_for & out_of_reach
