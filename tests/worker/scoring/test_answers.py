"""What is scored of a run, and what is recorded of it."""

from typing import Any

import pytest

from app.domain.observation import RequestObservation
from app.domain.scoring.terms import Quality
from app.domain.trace_request import TraceRequest
from tests.factories import make_observation, make_trace
from tests.worker.conduct import LOADS, PlaceMaker
from worker.scoring import answers
from worker.scoring.answers import Scored, score_run
from worker.scoring.sandbox import Ran, SandboxUnfit

ANSWERS = {"a": "def f(): return 1", "b": "def f(): return 2", "c": "def f(: return 1"}


def request(name: str, **fields: Any) -> TraceRequest:
    document = {"request_id": name, "load": "low", "due_ns": 0, "prompt": "x", "max_tokens": 9, "strata": {"task": "t"}}
    return TraceRequest.model_validate(document | fields)


def requests(**fields: Any) -> list[TraceRequest]:
    return [request(name, **fields) for name in ANSWERS]


def observations(**outcomes: str) -> list[RequestObservation]:
    return [make_observation(name, text=text, outcome=outcomes.get(name, "success")) for name, text in ANSWERS.items()]


def quality(scorer: str, **settings: Any) -> Quality:
    return Quality.model_validate({"scorer": scorer, **settings})


async def test_nothing_declared_is_nothing_scored() -> None:
    assert await score_run(None, requests(), observations(), ()) == Scored()


async def test_complete_answers_of_the_sample_are_scored() -> None:
    asked = requests(reference=ANSWERS["a"])
    assert await score_run(quality("exact"), asked, observations(b="truncated"), ()) == Scored(
        "exact/1", {"a": 1.0, "c": 0.0}
    )
    some = await score_run(quality("exact", samples=2), asked, observations(), ())
    assert len(some.scores) == 2


async def test_programs_are_run() -> None:
    found = await score_run(quality("unit_tests"), requests(tests="assert f() == 1"), observations(), ())
    assert found.scorer is not None
    assert found.scorer.startswith("unit_tests/1")
    assert found.scores == {"a": 1.0, "b": 0.0, "c": 0.0}


async def test_without_what_it_needs_nothing_is_scored() -> None:
    asked = [request("a", reference="x"), request("b"), request("c", reference="x")]
    assert await score_run(quality("exact"), asked, observations(), ()) == Scored()


async def test_a_layer_that_is_not_there_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*_: Any, **__: Any) -> Ran:
        return Ran(passed=True, told="passed", lacking={"namespaces": "not permitted"})

    monkeypatch.setattr(answers, "run_tests", ran)
    found = await score_run(quality("unit_tests"), requests(tests="assert 1"), observations(), ())
    assert found.scorer == "unit_tests/1, without namespaces"


async def test_a_host_that_cannot_confine_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(*_: Any, **__: Any) -> Ran:
        raise SandboxUnfit("no system call filter")

    monkeypatch.setattr(answers, "run_tests", unfit)
    assert await score_run(quality("unit_tests"), requests(tests="assert 1"), observations(), ()) == Scored()


async def test_a_block_records_the_scores_of_its_runs(place: PlaceMaker) -> None:
    here = place()
    trace = make_trace(loads=LOADS, requests=6, warmup=2)
    declared = {"scorer": "normalised", "samples": 4}
    workloads = [{"name": "tasks", "trace": trace.digest, "quality": declared}]
    manifest = await here.submit(trace, workloads=workloads)
    await here.conduct()
    runs = (await here.evidence(manifest)).runs
    assert {run.scorer for run in runs} == {"normalised/1"}
    assert all(len(run.scores) == 4 and set(run.scores) <= {o.request_id for o in run.observations} for run in runs)
