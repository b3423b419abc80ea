"""An experiment with planned looks: what is queued after a look that settles every word is never begun."""

from collections.abc import Iterator

import psycopg
import pytest

from app.domain.lifecycle import SessionState
from app.domain.report import build_report
from app.domain.vocabulary import FailureClass, VerdictWord
from app.experiments.service import ExperimentService
from tests.conftest import libpq_url
from tests.factories import BASELINE, NGRAM
from tests.worker.conduct import PlaceMaker

REFUSING = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no block may be canceled'; END $$;
CREATE TRIGGER refusing BEFORE UPDATE ON block FOR EACH ROW WHEN (NEW.state = 'CANCELED') EXECUTE FUNCTION refuse();
"""
"""A look that settles every word cannot end what is queued."""


@pytest.fixture
def looks_fail(database_url: str) -> Iterator[None]:
    with psycopg.connect(libpq_url(database_url), autocommit=True) as connection:
        connection.execute(REFUSING.encode())
        yield
        connection.execute(b"DROP TRIGGER refusing ON block; DROP FUNCTION refuse")


async def test_blocks_after_a_look_that_settles_every_word_are_not_needed(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"wrong_metrics": True}})  # INVALID in the first block and for ever
    manifest = await here.submit(blocks=7, looks=[5], arms=[BASELINE, NGRAM])
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert {s.block for s in evidence.sessions} == set(range(5))
    assert {s.state for s in evidence.sessions} == {SessionState.SUCCEEDED}
    assert await here.state(manifest) == "FINISHED"
    report = build_report(evidence)
    assert [(look.blocks, look.stops) for look in report.looks] == [(5, True)]
    assert (report.interim, report.blocks_complete) == (False, 5)
    assert {v.word for v in report.verdicts} == {VerdictWord.INVALID}
    read = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert read.failures == []
    assert read.seconds_left == 0


@pytest.mark.usefixtures("looks_fail")
async def test_a_look_that_fails_costs_no_block_and_is_shown(place: PlaceMaker) -> None:
    here = place(faults={"ngram": {"wrong_metrics": True}})
    manifest = await here.submit(blocks=6, looks=[5], arms=[BASELINE, NGRAM])
    await here.conduct()

    read = await ExperimentService(here.database, here.settings).read(manifest.digest)
    assert (read.state, read.blocks_complete) == ("FINISHED", 6)
    (failure,) = read.failures
    assert (failure.where, failure.failure_class) == ("block 5", FailureClass.LOOK)
    assert failure.message.startswith("the block is complete, but the look after it could not be taken")
    assert "no block may be canceled" in failure.message
    evidence = await here.evidence(manifest)
    assert len(evidence.sessions) == 6 * 2
    assert {s.state for s in evidence.sessions} == {SessionState.SUCCEEDED}
