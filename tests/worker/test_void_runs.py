"""A run whose client lagged is void: it is repeated, kept as evidence and never counted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import psutil

from app.domain.lifecycle import RunState, SessionState
from app.domain.report import build_report
from app.domain.vocabulary import FailureClass, VerdictWord
from tests.factories import BASELINE, NGRAM
from tests.worker.conftest import PlaceMaker

STOPPED_S = 0.2
"""Longer than the lateness that is allowed, and often enough to hit a due time."""


@asynccontextmanager
async def hindered(*attempts: str) -> AsyncGenerator[None, None]:
    """Stop and continue, again and again, every client process that replays one of ``attempts`` (``low-1``)."""
    task = asyncio.create_task(_hinder(attempts))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _hinder(attempts: tuple[str, ...]) -> None:
    while True:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "worker.replay.child" in child.cmdline() and child.cwd().endswith(attempts):
                    child.suspend()
                    await asyncio.sleep(STOPPED_S)
                    child.resume()
        await asyncio.sleep(0.05)


async def test_a_void_run_is_repeated_and_only_the_good_attempt_counts(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(arms=[BASELINE, NGRAM])
    async with hindered("low-1"):
        await here.conduct()

    evidence = await here.every_attempt(manifest)
    low = {(r.arm, r.attempt): r.state for r in evidence.runs if r.load == "low"}
    assert low.pop(("target-only", 1)) == low.pop(("ngram-k4", 1)) == RunState.FAILED
    last = max(attempt for _, attempt in low)
    assert last > 1
    assert {arm for (arm, _), state in low.items() if state is RunState.SUCCEEDED} == {"target-only", "ngram-k4"}
    void = next(r for r in evidence.runs if r.state is RunState.FAILED)
    assert void.failure is not None
    assert void.failure.failure_class is FailureClass.GENERATOR_LIMITED
    assert "the client sent late" in void.failure.message
    assert len(void.observations) == 6
    assert {v.word for v in build_report(evidence).verdicts} != {VerdictWord.INVALID}


async def test_a_host_that_always_lags_gets_no_verdict_at_that_load(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(arms=[BASELINE, NGRAM])
    async with hindered("high-1", "high-2", "high-3"):
        await here.conduct()

    evidence = await here.every_attempt(manifest)
    high = [r for r in evidence.runs if r.load == "high" and r.arm == "target-only"]
    assert [(r.attempt, r.state) for r in high] == [(n, RunState.FAILED) for n in (1, 2, 3)]
    assert {s.state for s in evidence.sessions} == {SessionState.SUCCEEDED}
    verdicts = [v for v in build_report(evidence).verdicts if v.load == "high"]
    assert {v.word for v in verdicts} == {VerdictWord.INVALID}
    assert "the client sent late" in " ".join(verdicts[0].reasons)


async def test_a_proposer_that_remembers_answers_gets_no_second_attempt(place: PlaceMaker) -> None:
    suffix = {"name": "suffix-k4", "speculation": {"method": "suffix", "num_speculative_tokens": 4}}
    here = place()
    manifest = await here.submit(arms=[BASELINE, suffix])
    async with hindered("low-1"):
        await here.conduct()

    runs = [r for r in (await here.evidence(manifest)).runs if r.load == "low" and r.arm == "suffix-k4"]
    assert [(r.attempt, r.state) for r in runs] == [(1, RunState.FAILED)]
