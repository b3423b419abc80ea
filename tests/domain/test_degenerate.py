"""An arm whose answers degenerate is found out, and target-only's own faults are not held against it."""

import pytest

from app.domain.condition import Condition
from app.domain.degenerate import DegenerateAnswers, Degeneration, broken_by, degenerate_answers, notes_on
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.evidence import ExperimentEvidence
from app.domain.observation import RequestObservation
from app.domain.pairing import complete_blocks
from tests.domain.evidence_factory import Dials, make_evidence, make_manifest

CONDITION = Condition("ngram", "copy", "low")
GOOD = "The harbour was quiet that morning, and the boats lay still under a thin sheet of fog."
LOOP = "and then " * 30
RUSSIAN = "\u043e\u0442\u0432\u0435\u0442 " * 8
PROMPTS = 50


def answered(o: RequestObservation, text: str, finish: str = "stop", accepted: int | None = None) -> RequestObservation:
    counts = o.speculation
    if counts is not None and accepted is not None:
        steps = counts.num_spec_steps
        told = {"num_accepted_draft_tokens": accepted * steps, "per_step_accepted": (accepted,) * steps}
        counts = counts.model_copy(update=told)
    return o.model_copy(update={"text": text, "finish_reason": finish, "token_ids": (), "speculation": counts})


def evidence_of(texts: dict[str, tuple[str, str]], share: dict[str, float], **fields: object) -> ExperimentEvidence:
    """Of each arm that share of the prompts gets its own text and finish reason, all others the good one."""
    workload = {"name": "copy", "trace": "c" * 64, **fields}
    evidence = make_evidence(Dials(manifest=make_manifest(workloads=[workload]), requests=PROMPTS))
    runs = [
        run.model_copy(
            update={
                "observations": tuple(
                    answered(o, *texts.get(run.arm, (GOOD, "stop")), accepted=4)
                    if int(o.request_id.split("-")[1]) < share.get(run.arm, 0) * PROMPTS
                    else answered(o, GOOD, accepted=1)
                    for o in run.observations
                )
            }
        )
        for run in evidence.runs
    ]
    return evidence.model_copy(update={"runs": tuple(runs)})


def judged(evidence: ExperimentEvidence) -> DegenerateAnswers:
    (found,) = degenerate_answers(evidence, complete_blocks(evidence))
    return found


@pytest.mark.parametrize(
    ("text", "finish", "kind"),
    [
        (LOOP, "length", Degeneration.LOOPING),
        ("  \n", "stop", Degeneration.EMPTY),
        (GOOD, "length", Degeneration.CUT_OFF),
        (RUSSIAN, "stop", Degeneration.OTHER_SCRIPT),
    ],
)
def test_an_arm_that_degenerates_is_invalid(text: str, finish: str, kind: Degeneration) -> None:
    found = judged(evidence_of({"ngram": (text, finish)}, {"ngram": 0.2}))
    assert {k.kind: (k.arm, k.target) for k in found.kinds}[kind] == (20, 0)
    assert found.is_worse
    assert found.prompts == 100, "over both loads, and a prompt once over its blocks"
    (reason,) = broken_by([found], CONDITION)
    assert reason.startswith("degenerate output: ")
    assert f"20 {kind} (0 in target-only)" in reason


def test_target_only_degenerating_is_not_the_arm_s_fault() -> None:
    found = judged(evidence_of({"target-only": (LOOP, "length")}, {"target-only": 0.2}))
    assert not found.is_worse
    assert (found.arm_only, found.target_only) == (0, 20)


def test_where_both_degenerate_alike_nothing_is_broken() -> None:
    both = {"ngram": (LOOP, "length"), "target-only": (LOOP, "length")}
    found = judged(evidence_of(both, {"ngram": 0.5, "target-only": 0.5}))
    assert not found.is_worse
    assert (found.arm_only, found.target_only, found.p_mcnemar) == (0, 0, None)


def test_a_few_may_be_chance() -> None:
    few = judged(evidence_of({"ngram": (LOOP, "length")}, {"ngram": 0.04}))
    assert few.arm_only == 4
    assert not few.is_worse, "four against none have a chance of 6%"
    more = judged(evidence_of({"ngram": (LOOP, "length")}, {"ngram": 0.06}))
    assert more.is_worse


def test_the_margin_is_the_manifest_s() -> None:
    found = judged(evidence_of({"ngram": (LOOP, "length")}, {"ngram": 0.2}, degenerate_margin=0.25))
    assert found.margin == 0.25
    assert not found.is_worse


def test_accepted_lengths_are_told_without_loops() -> None:
    both = {"ngram": (LOOP, "length"), "target-only": (LOOP, "length")}
    found = judged(evidence_of(both, {"ngram": 0.5, "target-only": 0.5}))
    assert found.length_excl.value == pytest.approx(2.5)
    assert found.length_excl_looping.value == pytest.approx(4)
    assert found.length_excl_others.value == pytest.approx(1)
    assert found.loops_carry_it
    (note,) = notes_on([found], CONDITION)
    assert note == (
        "accepted lengths come from loops: 2.50 tokens per draft with the 250 of 500 answers that repeat themselves, "
        "1.00 without them"
    )


def test_an_engine_without_counts_per_request_is_not_said_to_have_drafted_nothing() -> None:
    evidence = evidence_of({"ngram": (LOOP, "length")}, {"ngram": 0.5})
    silent = tuple(
        s.model_copy(update={"flags_left_out": {PER_REQUEST_SPECULATION_FLAG: "unknown to it"}})
        if s.arm == "ngram"
        else s
        for s in evidence.sessions
    )
    runs = tuple(
        r.model_copy(update={"observations": tuple(o.model_copy(update={"speculation": None}) for o in r.observations)})
        for r in evidence.runs
    )
    found = judged(evidence.model_copy(update={"sessions": silent, "runs": runs}))
    for estimate in (found.length_excl, found.length_excl_looping, found.length_excl_others):
        assert estimate.value is None
        assert estimate.why is not None
        assert estimate.why.startswith("this engine gives no speculation counts per request, and its counters cannot")
    assert not found.loops_carry_it


def test_without_loops_acceptance_is_one_number() -> None:
    found = judged(evidence_of({}, {}))
    assert found.length_excl_looping.why == "no answer loops"
    assert not found.loops_carry_it
    assert found.length_excl_looping.value is None
    assert found.length_excl_others == found.length_excl
    assert [*notes_on([found], CONDITION)] == []


def test_a_prompt_counts_by_most_of_its_blocks() -> None:
    evidence = evidence_of({"ngram": (LOOP, "length")}, {"ngram": 0.2})
    good = evidence_of({}, {})
    mostly_good = [g if r.block < 3 else r for g, r in zip(good.runs, evidence.runs, strict=True)]
    assert judged(evidence.model_copy(update={"runs": tuple(mostly_good)})).arm_only == 0
    mostly_bad = [g if r.block < 2 else r for g, r in zip(good.runs, evidence.runs, strict=True)]
    assert judged(evidence.model_copy(update={"runs": tuple(mostly_bad)})).arm_only == 20
