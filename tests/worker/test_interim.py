"""An experiment with planned looks: what is queued after a look that settles every word is never begun."""

from app.domain.lifecycle import SessionState
from app.domain.report import build_report
from app.domain.vocabulary import VerdictWord
from app.experiments.service import ExperimentService
from tests.factories import BASELINE, NGRAM
from tests.worker.conduct import PlaceMaker


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
