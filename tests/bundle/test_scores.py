"""A score that does not follow from its answer is told by its request."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.bundle.verifying import verify
from app.domain.evidence import labels_of
from app.domain.scored import questions_of, scores_of
from tests.bundle.making import Change, changed, edited_rows, make_bundle
from tests.bundle.test_bundle import REQUESTS, make_workload
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every third answer is right."""
    trace = make_workload()
    quality = {"scorer": "exact", "samples": 9}
    manifest = make_manifest(workloads=[{"name": "copy", "trace": trace.digest, "quality": quality}], blocks=2)
    evidence = make_evidence(Dials(manifest=manifest, requests=REQUESTS))
    declared = manifest.workloads[0].quality
    assert declared is not None
    runs = []
    for run in evidence.runs:
        seen = tuple(
            o.model_copy(update={"text": f"answer {place}" if place % 3 == 0 else "no"})
            for place, o in enumerate(run.observations)
        )
        scores = scores_of(declared, questions_of(trace.of_load(run.load), declared), seen)
        runs.append(run.model_copy(update={"observations": seen, "scorer": "exact/1", "scores": scores}))
    whole = evidence.model_copy(update={"runs": tuple(runs), "labels": {"copy": labels_of(trace)}})
    return make_bundle(tmp_path_factory.mktemp("scores"), whole, {trace.digest: trace})


def edited_run(edit: Callable[[dict[str, Any]], None]) -> Change:
    def change(place: Path) -> None:
        first, *others = (place / "runs.jsonl").read_text().splitlines()
        run = json.loads(first)
        edit(run)
        lines = [json.dumps(run, sort_keys=True, separators=(",", ":")), *others]
        (place / "runs.jsonl").write_text("\n".join(lines) + "\n")

    return change


def _raise(run: dict[str, Any]) -> None:
    name = min(name for name, score in run["scores"].items() if not score)
    run["scores"][name] = 1.0


def _drop(run: dict[str, Any]) -> None:
    run["scores"].pop(min(run["scores"]))


def _rename(run: dict[str, Any]) -> None:
    run["scorer"] = "exact/9"


def _unsign(run: dict[str, Any]) -> None:
    run["scorer"] = None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_raise, "does not follow from the answer's text"),
        (_drop, "has a score and no answer, or none and one"),
        (_rename, "scored by exact/9, and this is exact/1"),
        (_unsign, "nothing that gave them"),
    ],
)
def test_a_changed_score_is_told_by_its_run(bundle: Path, edit: Callable[[dict[str, Any]], None], words: str) -> None:
    problems = verify(changed(bundle, edited_run(edit), members=True)).problems
    assert any(problem.startswith("runs.jsonl: block 1/") and words in problem for problem in problems), problems


def test_the_request_is_named(bundle: Path) -> None:
    (told,) = [p for p in verify(changed(bundle, edited_run(_raise), members=True)).problems if "does not follow" in p]
    assert "the score of request " in told


def test_a_changed_answer_is_told_by_its_score(bundle: Path) -> None:
    def other(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"text": "answer 0"} if row["text"] == "no" else row for row in rows]

    def right(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"text": f"answer {row['request_id'].split('-')[1]}"} for row in rows]

    same = verify(changed(bundle, edited_rows(other), members=True, runs=True)).problems
    assert not any("does not follow" in problem for problem in same), "a wrong answer that stays wrong keeps its score"
    better = verify(changed(bundle, edited_rows(right), members=True, runs=True)).problems
    assert any("does not follow from the answer's text" in problem for problem in better)


def test_as_it_is_it_verifies(bundle: Path) -> None:
    assert verify(bundle).problems == ()
