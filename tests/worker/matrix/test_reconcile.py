"""The reconciliation on the fake engine, which can be made to miscount, and on hand-made runs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.domain.errors import DomainError
from app.domain.evidence import RunEvidence
from app.domain.observation import RequestObservation
from app.settings import Settings
from tests.domain.evidence_factory import TOKENS, Dials, make_observation, make_run
from tests.fakes.runtime import make_fake_runtime
from worker.accelerators import whole_host
from worker.cli import app
from worker.matrix.conduct import Matrix, open_matrix
from worker.matrix.models import TARGET
from worker.matrix.reconcile import PROMPTS, cases_to_reconcile, reconcile_methods
from worker.matrix.reconciled import beyond_the_end, reconciled
from worker.matrix.table import reconciled_cells, reconciled_markdown

K = 4
QUANTITIES = ("prompt_tokens", "generation_tokens", "drafts", "draft_tokens", "accepted_tokens")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A host with the bundled models and a fake runtime."""
    make_fake_runtime(tmp_path / "runtimes" / "fake")
    return Settings().model_copy(update={"home": tmp_path / "home", "runtime_root": tmp_path / "runtimes"})


@pytest.fixture
def opened(settings: Settings) -> Callable[..., Matrix]:
    """Opens a matrix whose engine has the given dials."""

    def make(**dials: Any) -> Matrix:
        made = open_matrix(settings, "fake", fresh=False, say=[].append)
        (made.settings.model_root / TARGET / "fake.json").write_text(json.dumps(dials))
        return open_matrix(settings, "fake", fresh=False, say=[].append)

    return make


def run(accepted: int) -> RunEvidence:
    return make_run(0, "ngram-k4", "ngram", "low", speed=1.0, dials=Dials(accepted=accepted))


async def test_a_method_that_counts_right_reconciles_to_the_last_token(opened: Callable[..., Matrix]) -> None:
    target, ngram = await reconcile_methods(opened(step_ms={"*": 0.5}), ["target_only", "ngram"])
    assert target.holds
    assert [line.quantity for line in target.lines] == ["prompt_tokens", "generation_tokens"]
    assert ngram.broken == ()
    assert [line.quantity for line in ngram.lines][:5] == list(QUANTITIES)
    assert all(line.residual == 0 and line.per_request_sum > 0 for line in ngram.lines)
    assert ngram.holds
    assert ngram.requests == sum(PROMPTS)


async def test_an_engine_that_miscounts_is_found(opened: Callable[..., Matrix]) -> None:
    (row,) = await reconcile_methods(opened(step_ms={"*": 0.5}, faults={"ngram": {"wrong_metrics": True}}), ["ngram"])
    assert not row.holds
    assert {line.quantity: line.residual for line in row.lines}["accepted_tokens"] == -row.requests


async def test_a_running_experiment_is_not_disturbed(opened: Callable[..., Matrix], settings: Settings) -> None:
    matrix = opened()
    with whole_host(settings), pytest.raises(DomainError, match="an experiment is running"):
        await reconcile_methods(matrix, ["ngram"])


def test_suffix_decoding_is_asked_for_only_where_its_library_is(opened: Callable[..., Matrix]) -> None:
    matrix = opened()
    without = replace(matrix, runtime=replace(matrix.runtime, has_suffix_decoding=False))
    names = [case.name for case in cases_to_reconcile(without)]
    assert {"target_only", "ngram", "draft_model", "eagle"} <= set(names)
    assert [case.name for case in cases_to_reconcile(matrix) if case.name not in names] == ["suffix"]


def test_the_command_exits_with_1_where_a_token_is_missing(
    opened: Callable[..., Matrix], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERDRAFT_HOME", str(settings.home))
    monkeypatch.setenv("VERDRAFT_RUNTIME_ROOT", str(settings.runtime_root))
    opened(step_ms={"*": 0.5}, faults={"ngram": {"wrong_metrics": True}})
    answer = CliRunner().invoke(app, ["runtime", "reconcile", "fake", "--only", "ngram", "--json"])
    assert answer.exit_code == 1
    assert any(line["residual"] for line in json.loads(answer.stdout)[0]["lines"])


def test_a_hand_made_run_holds() -> None:
    found = reconciled(run(3), K)
    assert found.holds
    assert (found.beyond_the_end, found.finish_reasons) == (0, {"length": found.requests})


def test_positions_that_the_requests_contradict_are_named() -> None:
    good = run(3)
    assert good.counters is not None
    steps = good.counters.spec_decode_num_drafts or 0
    moved = good.counters.model_copy(update={"spec_decode_num_accepted_tokens_per_pos": (steps, steps - 1, 1, 0)})
    found = reconciled(good.model_copy(update={"counters": moved}), K)
    assert any(words.startswith("accepted by position: the steps of the requests say") for words in found.broken)
    assert not found.holds


def cut(observation: RequestObservation, tokens: int) -> RequestObservation:
    """The same request with its last ``tokens`` tokens cut off by the end of the output."""
    chunks = (*observation.chunk_tokens[:-1], observation.chunk_tokens[-1] - tokens)
    kept = observation.token_ids[: TOKENS - tokens]
    return observation.model_copy(update={"token_ids": kept, "chunk_tokens": chunks})


def test_accepted_tokens_that_the_end_cuts_off_are_counted_and_explained() -> None:
    observation = make_observation("r", accepted=3)
    assert beyond_the_end(observation) == 0
    assert beyond_the_end(cut(observation, 2)) == 2
    good = run(3)
    found = reconciled(good.model_copy(update={"observations": (cut(observation, 2),)}), K)
    assert found.beyond_the_end == 2
    assert not any("were not delivered" in words for words in found.broken)


def test_merged_chunks_hide_no_token_and_invent_none() -> None:
    """A busy server sends several steps in one chunk."""
    for observation, lost in ((make_observation("r", accepted=3), 0), (cut(make_observation("r", accepted=3), 2), 2)):
        first, second, *rest = observation.chunk_tokens
        merged = {"chunk_tokens": (first, second + rest[0], *rest[1:]), "chunk_ns": observation.chunk_ns[1:]}
        assert beyond_the_end(observation.model_copy(update=merged)) == lost
    plain = make_observation("r")
    assert beyond_the_end(plain.model_copy(update={"chunk_ns": plain.chunk_ns[4:]})) == 0


def test_more_missing_than_the_last_step_accepted_is_no_cut() -> None:
    observation = make_observation("r", accepted=3)
    kept = observation.model_copy(update={"token_ids": observation.token_ids[:-5]})
    found = reconciled(run(3).model_copy(update={"observations": (kept,)}), K)
    assert any("5 accepted tokens were not delivered, its last step accepted 3" in words for words in found.broken)


def test_the_table_has_every_quantity_and_names_a_method_once() -> None:
    found = reconciled(run(3), K)
    lines = reconciled_cells([found])
    assert [cells[1] for cells in lines][:5] == list(QUANTITIES)
    assert lines[-1][1] == "accepted beyond the end"
    text = reconciled_markdown([found])
    assert text.count("| ngram |") == 1
    assert f"| requests | {found.requests} ({found.requests} by length) |" in text
    assert len(text.splitlines()) == len(lines) + 2
