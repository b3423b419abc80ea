from app.domain.attrition import attrition
from app.domain.evidence import ExperimentEvidence
from app.domain.pairing import complete_blocks
from app.domain.report import build_report
from app.domain.vocabulary import Outcome
from tests.domain.evidence_factory import Dials, find_run, make_evidence, replace_run


def _failing(evidence: ExperimentEvidence, arm: str, failures: int) -> ExperimentEvidence:
    for block in range(5):
        run = find_run(evidence, arm=arm, block=block, load="low")
        changed = tuple(
            o.model_copy(update={"outcome": Outcome.STALL} if i < failures else {})
            for i, o in enumerate(run.observations)
        )
        evidence = replace_run(evidence, arm=arm, block=block, load="low", observations=changed)
    return evidence


def test_without_failures_there_is_nothing_to_bound() -> None:
    evidence = make_evidence()
    assert attrition(evidence.manifest, complete_blocks(evidence)) == ()


def test_failures_widen_the_interval_on_both_sides() -> None:
    evidence = _failing(make_evidence(Dials(speedup={"low": 1.3}, block_noise=0.01)), "ngram", 1)
    (found,) = attrition(evidence.manifest, complete_blocks(evidence))
    assert (found.arm, found.load, found.failed_target, found.failed_arm) == ("ngram", "low", 0, 5)
    stated = next(
        c.ratio
        for c in build_report(evidence).comparisons
        if (c.load, c.metric, c.stratum) == ("low", "request_speedup", "all")
    )
    assert found.low is not None
    assert found.high is not None
    assert stated.low is not None
    assert stated.high is not None
    assert found.low <= stated.low + 1e-9
    assert found.high >= stated.high - 1e-9


def test_where_half_of_the_requests_failed_nothing_bounds_the_ratio() -> None:
    evidence = _failing(make_evidence(), "ngram", 7)
    (found,) = attrition(evidence.manifest, complete_blocks(evidence))
    assert (found.low, found.high) == (None, None)
