"""An A/A experiment is conducted like any other: two arms of target-only, and no draft is asked after."""

from app.domain.host_noise import AGAIN, host_noise
from app.domain.report import build_report
from app.domain.vocabulary import VerdictWord
from tests.factories import BASELINE
from tests.worker.conduct import PlaceMaker


async def test_target_only_is_measured_against_itself(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(blocks=2, purpose="host_calibration", arms=[BASELINE, {**BASELINE, "name": AGAIN}])
    await here.conduct()

    report = build_report(await here.evidence(manifest))
    assert [v.reasons for v in report.verdicts if v.word is VerdictWord.INVALID] == []
    found = host_noise(report)
    assert found is not None
    assert (found.blocks, found.invalid, len(found.conditions)) == (2, 0, len(manifest.loads))
