"""Target-only as it is deployed beside target-only as it is pinned: conducted, recorded, compared, never diagnosed."""

from app.domain.lifecycle import SessionState
from app.domain.report import build_report
from tests.factories import BASELINE, NGRAM
from tests.worker.conduct import PlaceMaker

DEPLOYED = {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}


async def test_a_target_as_deployed_is_measured_beside_the_pinned_one(place: PlaceMaker) -> None:
    here = place()
    manifest = await here.submit(arms=[BASELINE, NGRAM, DEPLOYED])

    await here.conduct()

    evidence = await here.evidence(manifest)
    by_arm = {session.arm: session for session in evidence.sessions}
    assert {session.state for session in by_arm.values()} == {SessionState.SUCCEEDED}
    assert "--no-async-scheduling" in by_arm["target-only"].argv
    assert "--no-async-scheduling" not in by_arm["deployed"].argv
    compared = [c for c in build_report(evidence).comparisons if c.arm == "deployed" and c.primary]
    assert len(compared) == len(manifest.loads)
    assert all(c.block_ratios for c in compared)
