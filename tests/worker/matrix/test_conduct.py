"""The matrix on the fake engine: its deeds are dials, so each way to agree and to fall short can be shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.domain.errors import DomainError
from app.settings import Settings
from tests.fakes.runtime import make_fake_runtime
from worker.accelerators import whole_host
from worker.cli import app
from worker.matrix.conduct import Matrix, open_matrix, run_matrix
from worker.matrix.judging import Agreement, Said
from worker.matrix.models import TARGET
from worker.matrix.outcome import Ending

MatrixMaker = Callable[..., Matrix]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A host with the bundled models and a fake runtime."""
    make_fake_runtime(tmp_path / "runtimes" / "fake")
    return Settings().model_copy(update={"home": tmp_path / "home", "runtime_root": tmp_path / "runtimes"})


@pytest.fixture
def opened(settings: Settings) -> MatrixMaker:
    """Opens a matrix whose engine has the given dials; ``said`` collects what it starts."""

    def make(said: list[str], *, fresh: bool = False, **dials: Any) -> Matrix:
        made = open_matrix(settings, "fake", fresh=fresh, say=[].append)
        (made.settings.model_root / TARGET / "fake.json").write_text(json.dumps(dials))
        return open_matrix(settings, "fake", fresh=fresh, say=said.append)  # the dials are part of the model

    return make


async def test_a_served_method_is_asked_once_and_then_remembered(opened: MatrixMaker) -> None:
    said: list[str] = []
    (row,) = await run_matrix(opened(said), ["ngram"])
    assert row.preflight.said is Said.PASS
    assert row.engine is not None
    assert row.engine.ending is Ending.SERVED
    assert row.engine.drafted
    assert row.unlike == {}
    assert row.agreement is Agreement.AGREES
    assert said == ["starting fake for target_only", "starting fake for ngram"]
    assert await run_matrix(opened(said), ["ngram"]) == [row]
    assert len(said) == 2
    (again,) = await run_matrix(opened(said, fresh=True), ["ngram"])
    assert again.engine is not None
    # A start takes as long as it takes.
    again = again.model_copy(update={"engine": again.engine.model_copy(update={"startup_s": row.engine.startup_s})})
    assert again == row
    assert len(said) == 4, "fresh asks again, and target-only but once"


async def test_an_engine_that_dies_of_its_first_request(opened: MatrixMaker) -> None:
    said: list[str] = []
    (row,) = await run_matrix(opened(said, faults={"ngram": {"stream_error_every": 1}}), ["ngram"])
    assert row.engine is not None
    assert row.engine.ending is Ending.DIED
    assert row.agreement is Agreement.SHORT


async def test_an_engine_that_refuses_what_preflight_passes(opened: MatrixMaker) -> None:
    (row,) = await run_matrix(opened([], faults={"ngram": {"die_at_startup": True}}), ["ngram"])
    assert row.engine is not None
    assert row.engine.ending is Ending.REFUSED
    assert "cannot start" in row.engine.words
    assert row.agreement is Agreement.SHORT


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"resolves": {"ngram": {"model_config.max_model_len": 64}}}, "model_config.max_model_len"),
        ({"resolves": {"ngram": {"speculative_config.method": "suffix"}}}, "resolved method suffix"),
        ({"warns": {"ngram": ["Defaulted num_speculative_tokens to 4"]}}, "Defaulted"),
    ],
)
async def test_a_server_that_does_otherwise_than_asked_is_short(
    opened: MatrixMaker, dials: dict[str, Any], words: str
) -> None:
    (row,) = await run_matrix(opened([], **dials), ["ngram"])
    assert row.agreement is Agreement.SHORT
    assert row.engine is not None
    told = [*row.unlike, *row.engine.problems, *(w.line for w in row.engine.failing_warnings)]
    assert any(words in text for text in told)


async def test_policy_rows_say_what_the_engine_would_do(opened: MatrixMaker) -> None:
    said: list[str] = []
    rows = await run_matrix(opened(said), ["custom_class", "deepseek_mtp"])
    assert [row.preflight.said for row in rows] == [Said.POLICY, Said.POLICY]
    assert rows[0].engine is not None
    assert rows[1].engine is None
    assert {row.agreement for row in rows} == {Agreement.POLICY}


async def test_a_running_experiment_is_not_disturbed(opened: MatrixMaker, settings: Settings) -> None:
    matrix = opened([])
    with whole_host(settings), pytest.raises(DomainError, match="an experiment is running"):
        await run_matrix(matrix, ["ngram"])


def test_the_command_exits_with_1_where_a_row_is_short(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERDRAFT_HOME", str(settings.home))
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(settings.runtime_root))
    answer = CliRunner().invoke(app, ["runtime", "matrix", "fake", "--only", "ngram", "--json"])
    assert (answer.exit_code, [row["agreement"] for row in json.loads(answer.stdout)]) == (0, ["agrees"])
    records = next((settings.home / "method-matrix").glob("*.json"))
    records.write_text(records.read_text().replace('"served"', '"refused at start-up"'))
    answer = CliRunner().invoke(app, ["runtime", "matrix", "fake", "--only", "ngram"])
    assert answer.exit_code == 1
    assert "SHORT" in answer.stdout


def test_a_runtime_that_is_not_there_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(settings.runtime_root))
    answer = CliRunner().invoke(app, ["runtime", "matrix", "nowhere"])
    assert answer.exit_code == 1
    assert "nowhere" in answer.stderr
