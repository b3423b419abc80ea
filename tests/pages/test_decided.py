"""The page of an experiment that is over: why words are open, which gate failed, what lost most."""

import pytest

from app.domain.control import Control, ControlOutcome
from app.domain.evidence import Failure
from app.domain.lifecycle import SessionState
from app.domain.pairing import ALL
from app.domain.report import Report, build_report
from app.domain.vocabulary import FailureClass, VerdictWord
from app.pages.decided import EVIDENCE, Line, decided, why_open, worst
from app.pages.gates import broken_gates
from tests.domain.evidence_factory import Dials, find_run, make_evidence, make_manifest, replace_run, replace_session
from tests.factories_report import sample_report


def lines(report: Report, *, strata: bool = False) -> list[Line]:
    groups = decided(report)["tile_groups"]
    rows = [row for g in groups for row in g.strata] if strata else [g.whole for g in groups]
    return [line for row in rows for tile in row for line in tile.lines]


def test_every_verdict_has_a_tile_with_its_word_and_its_number() -> None:
    report = sample_report()
    shown = lines(report)
    assert sorted((line.arm, line.word) for line in shown) == sorted((v.arm, str(v.word)) for v in report.verdicts)
    assert all(line.comparison is not None and line.strip.value is not None for line in shown)


def test_an_open_word_says_why_and_how_many_blocks_would_decide() -> None:
    report = sample_report()
    shown = [line for line in lines(report) if line.word == VerdictWord.INCONCLUSIVE]
    assert shown
    for line in shown:
        assert line.why.endswith("About 11 blocks would decide; it has 5.")
    assert all(not line.why for line in lines(report) if line.word != VerdictWord.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.9, 1.2, "It may be a loss or a gain"),
        (1.01, 1.2, "It may be a gain worth having or none"),
        (0.9, 0.99, "It may be a loss that matters or none"),
        (0.97, 1.03, "lies inside the 5.0% margin"),
    ],
)
def test_what_an_interval_leaves_open(low: float, high: float, said: str) -> None:
    comparison = next(c for c in sample_report().comparisons if c.primary)
    held = comparison.model_copy(update={"simultaneous_low": low, "simultaneous_high": high})
    told = why_open(held, 0.05, None, is_stratum=False)
    assert said in told
    assert told.endswith("No affordable number of blocks would decide; it has 5.")


def test_strata_say_how_many_blocks_they_need() -> None:
    report = build_report(make_evidence(Dials(block_noise=0.06, speedup={"low": 1.06})))
    needed = {(w.arm, p.stratum, p.load): p.blocks_needed for w in report.recommendation.weighed for p in w.words}
    open_lines = [line for line in lines(report, strata=True) if line.word == VerdictWord.INCONCLUSIVE]
    assert open_lines
    assert any(count is not None for (_, stratum, _), count in needed.items() if stratum != ALL)
    assert all("blocks would decide; it has 5" in line.why for line in open_lines)


def test_an_invalid_line_has_its_gate_its_remedy_and_no_number() -> None:
    evidence = make_evidence()
    failure = Failure(failure_class=FailureClass.CONFIG, message="no such method")
    for block in range(5):
        evidence = replace_session(evidence, arm="ngram", block=block, state=SessionState.FAILED, failure=failure)
    runs = tuple(r for r in evidence.runs if r.arm != "ngram")
    report = build_report(evidence.model_copy(update={"runs": runs}))
    for line in lines(report):
        (gate,) = line.gates
        assert (line.word, line.comparison) == (VerdictWord.INVALID, None)
        assert gate.name == "every run completed"
        assert "Read the log" in gate.remedy
        assert len(gate.found) == 5
    assert lines(report, strata=True) == []


def test_a_failed_control_is_the_gate() -> None:
    evidence = make_evidence()
    run = find_run(evidence, arm="ngram", block=0, load="low")
    other = (run.observations[0].model_copy(update={"prompt_tokens": 31}), *run.observations[1:])
    report = build_report(replace_run(evidence, arm="ngram", block=0, load="low", observations=other))
    gates = {g.name: g for g in decided(report)["gates"]}
    [counted] = [g for name, g in gates.items() if name.startswith("reconciliation: ")]
    assert "read the raw scrapes" in counted.remedy
    assert "tokenizer and chat template" in gates["same prompts"].remedy


REASONS = {
    "the prompts of copy are not real text, so acceptance on them means nothing": "real text",
    "block 1: the run of ngram did not complete (OOM: CUDA out of memory)": "every run completed",
    "block 2: ngram resolved method suffix, asked for ngram": "started as asked",
    "blocks 1, 2: draft drafted nothing on the canary, although draft_model drafts at every step": "started as asked",
    "resolved configuration differs in dtype: target-only a, ngram b": "arms differ in speculation alone",
    "3 of 96 greedy answers of ngram that differ from target-only's are defects (copy/1: x)": "greedy equality",
    "fly acceptance is lossy: its cost was measured, and its outputs are not the target's": "lossless acceptance",
    "something nobody thought of": "validity",
}


@pytest.mark.parametrize(("reason", "gate"), REASONS.items())
def test_each_reason_has_its_gate_and_a_remedy(reason: str, gate: str) -> None:
    (found,) = broken_gates([reason], [])
    assert (found.name, found.found) == (gate, (reason,))
    assert found.remedy


def test_reasons_of_one_gate_are_told_together() -> None:
    control = Control(
        name="client lateness",
        block=1,
        arm="ngram",
        workload="copy",
        load="low",
        outcome=ControlOutcome.FAIL,
        figure=9.0,
        threshold=5.0,
        unit="ms",
        words="it sent late",
    )
    (found,) = broken_gates(["block 1, ngram: it sent late", "block 2, ngram: it sent late"], [control])
    assert found.name == "client lateness"
    assert len(found.found) == 2


def test_what_lost_most_is_named_with_its_requests() -> None:
    found = worst(sample_report())
    assert found is not None
    assert (found.comparison.arm, found.comparison.workload, found.comparison.load) == ("draft-k4", "open", "high")
    assert found.cases.startswith("?arm=draft-k4&workload=open&load=high&stratum=")
    assert found.cases.endswith("&sort=-ratio")
    gain = build_report(make_evidence(Dials(speedup={"low": 2.0, "high": 2.0}, block_noise=0.0)))
    assert worst(gain) is None


def test_every_item_of_the_checklist_leads_to_its_evidence() -> None:
    report = build_report(make_evidence(Dials(manifest=make_manifest(blocks=2))))
    assert {item.name for item in report.checklist} == EVIDENCE.keys()
