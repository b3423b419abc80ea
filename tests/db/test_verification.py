"""Verification records, scores and the servers that only answer again come back exactly, under the fence."""

import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.verified import VerificationRecord
from app.evidence.repository import EvidenceRepository
from app.leases.repository import ClaimedBlock, Fenced
from app.runs.repository import SessionRepository
from tests.db.conftest import Bench
from tests.db.test_earlier import found, interrupt
from tests.factories_verification import RECORD


async def diagnose(runs: SessionRepository, block: ClaimedBlock, record: VerificationRecord) -> None:
    session_id = await runs.start_session(block.id, block.fence, "target-only", 7, diagnosing=True)
    for state in (SessionState.WARMING, SessionState.VERIFYING):
        await runs.move_session(session_id, block.fence, state)
    await runs.record_verification(session_id, block.fence, record)
    for state in (SessionState.DRAINING, SessionState.SUCCEEDED):
        await runs.move_session(session_id, block.fence, state)


async def evidence_of(bench: Bench, digest: str) -> ExperimentEvidence:
    async with bench.database.reader() as session:
        return await EvidenceRepository(session).load_evidence(digest)


async def test_what_was_asked_and_scored_comes_back_and_diagnoses_stand_apart(bench: Bench) -> None:
    digest = await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    async with bench.runs() as runs:
        await runs.record_verification(session_id, block.fence, VerificationRecord())
        await runs.record_verification(session_id, block.fence, RECORD)  # the later one counts
        await runs.finish_run(
            run_id,
            block.fence,
            RunState.SUCCEEDED,
            failure=None,
            counters=None,
            summary=None,
            scorer="exact/1",
            scores={"tasks-low-0": 1.0, "tasks-low-1": 0.5},
        )
        await diagnose(runs, block, RECORD.model_copy(update={"raw_logits": False}))
    await bench.finish(block, BlockState.SUCCEEDED)
    evidence = await evidence_of(bench, digest)
    (measured,), (again,), (run,) = evidence.sessions, evidence.diagnoses, evidence.runs
    assert measured.verification == RECORD
    assert again.verification == RECORD.model_copy(update={"raw_logits": False})
    assert (again.diagnosing, measured.diagnosing) == (True, False)
    assert (run.scorer, run.scores) == ("exact/1", {"tasks-low-0": 1.0, "tasks-low-1": 0.5})


async def test_a_lost_lease_cannot_add_a_record(bench: Bench) -> None:
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, _ = await bench.start_run(block)
    await interrupt(bench, block)
    with pytest.raises(Fenced):
        async with bench.runs() as runs:
            await runs.record_verification(session_id, block.fence, RECORD)


async def test_a_block_that_goes_on_takes_over_no_diagnosis(bench: Bench) -> None:
    """It is made anew of what counts then."""
    await bench.register(blocks=1)
    block = await bench.claim()
    session_id, run_id = await bench.start_run(block)
    await bench.finish_run(block, session_id, run_id)
    async with bench.runs() as runs:
        await diagnose(runs, block, RECORD)
    again = await interrupt(bench, block)
    assert [earlier.id for earlier in await found(bench, again)] == [session_id]
