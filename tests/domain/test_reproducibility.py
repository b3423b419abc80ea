"""The checklist: evidence with everything is met, and each thing that is taken away is missed in its own item."""

from collections.abc import Callable

import pytest

from app.domain.evidence import ExperimentEvidence
from app.domain.lifecycle import SessionState
from app.domain.memory import MemoryBreakdown, MemoryPart, MemoryRow
from app.domain.report import Report, build_report
from app.domain.reproducibility import ChecklistItem, ItemState
from app.domain.startup import CanaryFacts
from app.domain.vocabulary import NS_PER_MS, Outcome
from tests.domain.evidence_factory import (
    ALONE,
    STARTUP_FAILED,
    Dials,
    find_run,
    make_evidence,
    make_manifest,
    replace_run,
    replace_session,
)

K2 = {"name": "ngram", "speculation": {"method": "ngram", "num_speculative_tokens": 4}}
MEMORY = MemoryBreakdown(
    rows=(MemoryRow(part=MemoryPart.TARGET_WEIGHTS, size_bytes=1, source="test"),),
    total_bytes=1,
    total_source="test",
    capacity_bytes=2,
    kv_cache_tokens=10_000,
    max_concurrency=1.0,
)
NAMES = ("pins", "startup", "workload", "strata", "swept", "quantities", "outputs", "loads", "controls", "published")
LEAN = ("swept",)
"""What the evidence below does not have by itself: its one proposer has one length."""


def whole() -> ExperimentEvidence:
    """Evidence as a worker of today records it, with every archive and every quantity."""
    evidence = make_evidence(Dials(requests=60, manifest=make_manifest(blocks=2)))
    sessions = tuple(
        s.model_copy(
            update={
                "argv": ("vllm", "serve"),
                "memory_breakdown": MEMORY,
                "canary": CanaryFacts(exposes_speculation=s.arm not in ALONE, drafted=4),
            }
        )
        for s in evidence.sessions
    )
    runs = tuple(
        r.model_copy(
            update={"observations": tuple(o.model_copy(update={"queue_time_ns": NS_PER_MS}) for o in r.observations)}
        )
        for r in evidence.runs
    )
    return evidence.model_copy(update={"sessions": sessions, "runs": runs})


def missed(evidence: ExperimentEvidence) -> tuple[str, ...]:
    return tuple(i.name for i in build_report(evidence).checklist if i.state is ItemState.NOT_MET)


def the(report: Report, name: str) -> ChecklistItem:
    return next(item for item in report.checklist if item.name == name)


def told(report: Report, name: str, what: str) -> str:
    return next(check.evidence for check in the(report, name).checks if check.what == what)


def test_the_ten_items_are_always_there_in_their_order() -> None:
    for evidence in (whole(), make_evidence(Dials(blocks_run=0))):
        assert tuple(item.name for item in build_report(evidence).checklist) == NAMES


def test_whole_evidence_misses_only_what_it_does_not_have() -> None:
    assert missed(whole()) == LEAN


def test_without_a_complete_block_nothing_that_must_be_seen_is_met() -> None:
    assert missed(make_evidence(Dials(blocks_run=0))) == tuple(name for name in NAMES if name != "pins")


def test_what_is_not_met_says_what_to_do_and_what_is_met_does_not() -> None:
    for evidence in (whole(), make_evidence(Dials(blocks_run=0))):
        for item in build_report(evidence).checklist:
            for check in item.checks:
                assert check.evidence
                assert bool(check.remedy) is (check.state is ItemState.NOT_MET), check


def _of_run(**changes: object) -> Callable[[ExperimentEvidence], ExperimentEvidence]:
    """The first observation of one run of the arm changed."""

    def change(evidence: ExperimentEvidence) -> ExperimentEvidence:
        first, *others = find_run(evidence, arm="ngram", block=1, load="low").observations
        seen = (first.model_copy(update=changes), *others)
        return replace_run(evidence, arm="ngram", block=1, load="low", observations=seen)

    return change


def _of_session(**changes: object) -> Callable[[ExperimentEvidence], ExperimentEvidence]:
    return lambda evidence: replace_session(evidence, arm="ngram", block=1, **changes)


def _labels(**changes: object) -> Callable[[ExperimentEvidence], ExperimentEvidence]:
    def change(evidence: ExperimentEvidence) -> ExperimentEvidence:
        labels = {w: tuple(r.model_copy(update=changes) for r in rs) for w, rs in evidence.labels.items()}
        return evidence.model_copy(update={"labels": labels})

    return change


@pytest.mark.parametrize(
    ("change", "also"),
    [
        pytest.param(_of_session(log_sha256=None), {"startup"}, id="a log is not archived"),
        pytest.param(_of_session(canary=None), {"startup"}, id="a canary was not looked at"),
        pytest.param(
            _of_session(resolved_config={"model_config.dtype": "x", "speculative_config.method": "suffix"}),
            {"startup"},
            id="another method was resolved",
        ),
        pytest.param(_of_run(due_ns=1), {"workload"}, id="a request was due at another time"),
        pytest.param(_of_run(prompt_tokens=31), {"workload", "published"}, id="another prompt was served"),
        pytest.param(_labels(strata={}), {"strata"}, id="nothing is labelled"),
        pytest.param(_labels(is_sampled=True), {"outputs"}, id="requests are sampled and no test looks"),
        pytest.param(_of_session(memory_breakdown=None), set(), id="one server's memory is enough for its arm"),
        pytest.param(_of_run(finish_reason="stop"), {"controls", "outputs"}, id="an answer ends for another reason"),
        pytest.param(
            _of_run(token_ids=(), chunk_tokens=(0,) * 6), {"published", "outputs"}, id="a case without token ids"
        ),
    ],
)
def test_each_thing_taken_away_is_missed_where_it_belongs(
    change: Callable[[ExperimentEvidence], ExperimentEvidence], also: set[str]
) -> None:
    assert set(missed(change(whole()))) == {*LEAN, *also}


def test_a_server_that_did_not_start_is_no_compatible_one() -> None:
    evidence = whole()
    for block in range(2):
        evidence = replace_session(
            evidence, arm="ngram", block=block, state=SessionState.FAILED, startup_ns=None, failure=STARTUP_FAILED
        )
    report = build_report(evidence)
    assert the(report, "startup").state is ItemState.NOT_MET
    assert "2 of 4 servers" in told(report, "startup", "every server started")
    assert "not those of ngram" in told(report, "startup", "every server started")


def test_two_lengths_of_a_proposer_are_a_sweep() -> None:
    other = {"name": "ngram-k8", "speculation": {"method": "ngram", "num_speculative_tokens": 8}}
    target = {"name": "target-only", "speculation": {"method": "target_only"}}
    report = build_report(make_evidence(Dials(manifest=make_manifest(arms=[target, K2, other]))))
    assert the(report, "swept").state is ItemState.MET
    assert told(report, "swept", "ngram") == "k = 4, 8"


def test_a_manifest_of_one_regime_is_missed() -> None:
    loads = [{"name": "low", "regime": "latency", "rate_rps": 1.0}]
    report = build_report(make_evidence(Dials(manifest=make_manifest(loads=loads), requests=60)))
    assert the(report, "loads").state is ItemState.NOT_MET
    assert told(report, "loads", "both regimes") == "latency: low; serving: none"


def test_runs_too_short_to_tell_their_queue_and_warm_up_are_not_met() -> None:
    report = build_report(make_evidence(Dials(requests=4)))
    assert the(report, "loads").state is ItemState.NOT_MET
    assert "UNDECIDED" in told(report, "loads", "every queue is told")
    assert "20 not checkable" in told(report, "controls", "warm-up")


def test_requests_that_the_trace_ends_are_counted() -> None:
    evidence = whole()
    labels = {
        w: tuple(r.model_copy(update={"planned_end": "cancel" if r.request_id == "low-3" else None}) for r in rs)
        for w, rs in evidence.labels.items()
    }
    report = build_report(evidence.model_copy(update={"labels": labels}))
    assert told(report, "controls", "cancellation").startswith("4 of 4 requests that the trace ends early")


def test_a_request_canceled_that_the_trace_does_not_end_is_missed() -> None:
    report = build_report(_of_run(outcome=Outcome.CLIENT_CANCEL)(whole()))
    assert told(report, "controls", "cancellation").endswith("1 others were canceled")
    assert the(report, "controls").state is ItemState.NOT_MET


def test_a_gpu_that_no_server_recorded_or_that_is_another_is_missed() -> None:
    software = {"driver": "570.1", "cuda": "12.8", "os": "Debian 12", "kernel": "6.1"}
    hardware = {"accelerator": "NVIDIA H200", "count": 1, "topology": "single"}
    manifest = make_manifest(software=software, hardware=hardware)
    evidence = make_evidence(Dials(manifest=manifest))
    assert the(build_report(evidence), "pins").state is ItemState.NOT_MET

    def had(model: str) -> ExperimentEvidence:
        device = {"uuid": "GPU-1", "model": model, "driver": "570.1", "memory_bytes": 1}
        sessions = [s.model_dump() | {"devices": (device,)} for s in evidence.sessions]
        return ExperimentEvidence.model_validate(evidence.model_dump() | {"sessions": sessions})

    assert the(build_report(had("NVIDIA H200")), "pins").state is ItemState.MET
    assert "they had NVIDIA H100" in told(build_report(had("NVIDIA H100")), "pins", "the devices that were there")
