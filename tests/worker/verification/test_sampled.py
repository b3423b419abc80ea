"""Sampled answers from end to end, on the fake engine whose distribution and defects are known."""

from typing import Any

import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.lifecycle import SessionState
from app.domain.report import Report, build_report
from app.domain.sampling_equality import SamplingWord
from app.domain.verified import VerificationMode
from app.domain.vocabulary import VerdictWord
from tests.worker.conduct import PlaceMaker
from worker.verification.sampled import SAMPLES

QUICK = {"samples": True, "step_ms": {"*": 0.2}, "ttft_ms": 0.5}


async def conducted(place: PlaceMaker, **dials: Any) -> tuple[ExperimentEvidence, Report]:
    here = place(**QUICK, **dials)
    manifest = await here.submit(blocks=1, sampling={"temperature": 1.0})
    await here.conduct()
    evidence = await here.evidence(manifest)
    return evidence, build_report(evidence)


async def test_a_right_sampler_passes(place: PlaceMaker) -> None:
    evidence, report = await conducted(place)
    (found,) = report.sampling
    assert (found.word, found.reasons) == (SamplingWord.PASS, ())
    assert found.temperature_low is not None
    assert found.temperature_high is not None
    assert found.temperature_low < 1 < found.temperature_high
    (scored,) = evidence.diagnoses
    assert (scored.arm, scored.state) == ("target-only", SessionState.SUCCEEDED)
    seeds = [answer.seed for session in evidence.sessions for answer in _sampled(session.verification)]
    assert len(seeds) == len(set(seeds)) == 3 * SAMPLES * found.prompts


@pytest.mark.parametrize("defect", [{"heat": {"ngram": 1.15}}, {"takes_top": {"ngram": 0.15}}], ids=str)
async def test_a_wrong_sampler_is_invalid(place: PlaceMaker, defect: dict[str, Any]) -> None:
    _, report = await conducted(place, **defect)
    (found,) = report.sampling
    assert found.word is SamplingWord.FAIL
    assert {verdict.word for verdict in report.verdicts} == {VerdictWord.INVALID}
    assert any("not distributed as target-only" in reason for reason in report.verdicts[0].reasons)


async def test_an_engine_that_ignores_temperatures_is_not_told_to_be_right(place: PlaceMaker) -> None:
    """Arm and target-only answer alike, and so does the control: nothing has been shown."""
    _, report = await conducted(place, takes_top={"*": 1.0})
    (found,) = report.sampling
    assert found.word is SamplingWord.NOT_CHECKABLE
    assert any("sampled outputs are not checkable" in reason for reason in report.verdicts[0].reasons)


def _sampled(record: Any) -> list[Any]:
    modes = {VerificationMode.SAMPLED, VerificationMode.SAMPLED_HOTTER}
    return [answer for answer in record.answers if answer.mode in modes]
