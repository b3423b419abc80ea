"""The story of a block on the fake engine: what is recorded when all goes well, and when each thing fails."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

from app.domain.lifecycle import RunState, SessionState
from app.domain.report import build_report
from app.domain.vocabulary import FailureClass, Outcome, VerdictWord
from app.experiments.schemas import ExperimentRead
from app.experiments.service import ExperimentService
from tests.factories import BASELINE, NGRAM
from tests.worker.conduct import DRAFT_ARM, PlaceMaker
from worker.identity import hardware


async def polled(read: Callable[[], Awaitable[ExperimentRead]]) -> AsyncIterator[ExperimentRead]:
    """The experiment, again and again; the test's own time limit ends a wait that has no end."""
    while True:
        yield await read()
        await asyncio.sleep(0.1)


async def test_every_arm_is_measured_and_reconciles(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(blocks=2)
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert await here.state(manifest) == "FINISHED"
    assert {s.state for s in evidence.sessions} == {SessionState.SUCCEEDED}
    assert len(evidence.runs) == 2 * 2 * 2
    for run in evidence.runs:
        assert run.state is RunState.SUCCEEDED
        assert {o.outcome for o in run.observations} == {Outcome.SUCCESS}
    report = build_report(evidence)
    assert report.reconciliations
    assert all(r.residual == 0 for r in report.reconciliations)
    assert report.config_differences == {} or not any(report.config_differences.values())
    assert all(not c.mismatched for c in report.correctness)


async def test_a_start_up_failure_is_recorded_and_stops_no_other_arm(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"die_at_startup": True}})
    manifest = await here.submit(blocks=1)
    await here.conduct()

    evidence = await here.evidence(manifest)
    by_arm = {s.arm: s for s in evidence.sessions}
    failed, baseline = by_arm["ngram-k4"], by_arm["target-only"]
    assert failed.state is SessionState.FAILED
    assert failed.failure is not None
    assert failed.failure.message
    assert failed.log_sha256 is not None
    assert (here.settings.artifact_root / failed.log_sha256[:2] / failed.log_sha256).exists()
    assert "--speculative-config" in failed.argv  # the flag that failed was not changed
    assert baseline.state is SessionState.SUCCEEDED
    assert {r.arm for r in evidence.runs if r.state is RunState.SUCCEEDED} == {"target-only"}
    assert {v.word for v in build_report(evidence).verdicts} == {VerdictWord.INVALID}


async def test_a_hang_in_start_up_is_named(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"hang_at_startup": True}})
    manifest = await here.submit()
    await here.conduct()

    failed = next(s for s in (await here.evidence(manifest)).sessions if s.arm == "ngram-k4")
    assert failed.failure is not None
    assert failed.failure.failure_class is FailureClass.HANG


async def test_an_engine_that_dies_in_a_run_leaves_the_rest_intact(place: PlaceMaker) -> None:
    # One canary and two warm-up requests come first; the first run has six.
    here = place(faults={"ngram": {"die_after_requests": 6}})
    manifest = await here.submit()
    await here.conduct()

    evidence = await here.evidence(manifest)
    broken = [r for r in evidence.runs if r.arm == "ngram-k4"]
    assert [r.state for r in broken] == [RunState.FAILED]
    assert broken[0].failure is not None
    assert broken[0].failure.failure_class is FailureClass.ENGINE_DEAD
    outcomes = [o.outcome for o in broken[0].observations]
    assert len(outcomes) == 6
    assert Outcome.SUCCESS in outcomes
    assert set(outcomes) - {Outcome.SUCCESS}
    assert [r.state for r in evidence.runs if r.arm == "target-only"] == [RunState.SUCCEEDED] * 2


async def test_an_error_inside_a_stream_is_its_own_outcome(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"stream_error_every": 5}})
    manifest = await here.submit()
    await here.conduct()

    evidence = await here.evidence(manifest)
    outcomes = [o.outcome for r in evidence.runs if r.arm == "ngram-k4" for o in r.observations]
    assert outcomes.count(Outcome.STREAM_ERROR) >= 2
    assert all(v.word is not VerdictWord.HELPS for v in build_report(evidence).verdicts)


async def test_wrong_counters_make_the_arm_invalid(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"wrong_metrics": True}})
    manifest = await here.submit()
    await here.conduct()

    report = build_report(await here.evidence(manifest))
    assert any(r.residual for r in report.reconciliations if r.arm == "ngram-k4")
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}


async def test_an_orphan_that_ignores_sigterm_is_gone_afterwards(place: PlaceMaker) -> None:
    here = place(faults={"*": {"orphan": True}})
    manifest = await here.submit(arms=[BASELINE, NGRAM])
    await here.conduct()

    assert {s.state for s in (await here.evidence(manifest)).sessions} == {SessionState.SUCCEEDED}


async def test_a_host_that_is_not_as_pinned_refuses_and_names_each_pin(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(hardware={**hardware().model_dump(), "count": 7, "topology": "other board"})
    await here.conduct()

    experiment = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert experiment.state == "FAILED"
    message = experiment.failures[0].message
    assert "hardware.count" in message
    assert "other board" in message


async def test_a_block_for_another_kind_of_accelerator_waits_in_its_own_queue(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(hardware={**hardware().model_dump(), "accelerator": "other chip"})
    await here.conduct()

    assert await here.state(manifest) == "QUEUED"


async def test_a_model_that_has_gone_is_named(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit()
    shutil.rmtree(here.model_root / "target")
    await here.conduct()

    experiment = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert experiment.state == "FAILED"
    assert experiment.failures[0].failure_class is FailureClass.CONFIG
    assert "target" in experiment.failures[0].message


async def test_a_draft_gets_its_directory(place: PlaceMaker) -> None:
    here = place()
    arm = {**DRAFT_ARM, "draft_or_speculator": here.model_reference("draft")}
    manifest = await here.submit(arms=[BASELINE, arm])
    await here.conduct()

    session = next(s for s in (await here.evidence(manifest)).sessions if s.arm == "draft-k4")
    assert session.state is SessionState.SUCCEEDED
    assert str(here.model_root / "draft") in session.argv[session.argv.index("--speculative-config") + 1]


async def test_cancel_while_measuring_keeps_the_evidence(place: PlaceMaker) -> None:
    here = place(step_ms={"*": 400.0})
    manifest = await here.submit()
    service = ExperimentService(here.database, here.settings)
    conducting = asyncio.create_task(here.conduct())
    async for experiment in polled(lambda: service.read(manifest.digest)):
        if experiment.current and experiment.current.session_state == "MEASURING":
            break
    await service.cancel(manifest.digest)
    await conducting

    assert await here.state(manifest) == "CANCELED"
