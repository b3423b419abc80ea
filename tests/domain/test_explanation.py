"""Where the time went: engines whose clocks are chosen, so that every part is known."""

import pytest

from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.explanation import (
    DEARER_STEPS,
    FEWER_STEPS,
    OUTSIDE,
    QUEUE,
    READING,
    WAITING,
    Explanation,
    explain,
    leviathan_speedup,
    leviathan_tokens,
)
from app.domain.lifecycle import RunState
from app.domain.mechanism import DECODE, ITL, PREFILL
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.pairing import CompleteBlocks
from app.domain.results import arm_results
from app.domain.saturation import saturations
from app.domain.series import Series
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, Outcome
from tests.domain.evidence_factory import Dials, make_evidence

K = 4
CONDITION = Condition("ngram", "copy", "low")


def run(
    block: int, arm: str, *, e2e: float, step: float, queue: float = 5, prefill: float = 15, steps: int
) -> RunEvidence:
    """Two requests of 21 tokens whose means are these, ms; 20 tokens after the first in ``steps`` steps."""
    clocks = {QUEUE: (queue, 2), PREFILL: (prefill, 2), DECODE: (step * steps, 2), ITL: (step, 2 * steps)}
    series = [
        Series(name=f"{name}_{part}", at_ns=(0, 1), values=(7.0, 7.0 + value))
        for name, (mean, count) in clocks.items()
        for part, value in (("sum", mean * count / 1000), ("count", count))
    ]
    accepted = 20 - steps
    counts = SpeculationCounts(
        num_spec_steps=steps,
        num_draft_tokens=K * steps,
        num_accepted_draft_tokens=accepted,
        per_step_accepted=(accepted // steps,) * steps,
        per_step_drafted=(K,) * steps,
    )
    seen = tuple(
        RequestObservation(
            request_id=f"low-{i}",
            outcome=Outcome.SUCCESS,
            due_ns=0,
            end_ns=round(e2e * NS_PER_MS),
            chunk_ns=tuple(round(e2e * NS_PER_MS * (chunk + 1) / (steps + 1)) for chunk in range(steps + 1)),
            chunk_tokens=(1,) + (20 // steps,) * steps,
            token_ids=tuple(range(21)),
            speculation=None if arm == BASELINE_ARM else counts,
        )
        for i in range(2)
    )
    return RunEvidence(
        block=block,
        arm=arm,
        workload="copy",
        load="low",
        state=RunState.SUCCEEDED,
        observations=seen,
        series=tuple(series),
    )


def explained(*pairs: tuple[RunEvidence, RunEvidence]) -> Explanation:
    target = Condition(BASELINE_ARM, "copy", "low")
    blocks = CompleteBlocks(
        tuple(range(len(pairs))),
        {target: {t.block: t for t, _ in pairs}, CONDITION: {a.block: a for _, a in pairs}},
    )
    evidence = make_evidence(Dials())
    evidence = evidence.model_copy(update={"runs": tuple(r for pair in pairs for r in pair)})
    results = arm_results(evidence, blocks, saturations(evidence, blocks))
    overall = next(r for r in results if (r.arm, r.load, r.stratum) == ("ngram", "low", "all"))
    return explain(blocks, CONDITION, k=K, overall=overall, counts_per_request=True)


def two_blocks() -> Explanation:
    return explained(
        *(
            (
                run(block, BASELINE_ARM, e2e=230, step=10, steps=20),
                run(block, "ngram", e2e=95 + 3, step=15, queue=2, prefill=16, steps=5),
            )
            for block in range(2)
        )
    )


def test_the_parts_are_what_the_clocks_say_and_sum_to_the_whole() -> None:
    found = two_blocks()
    parts = {p.part: p.saved_ms.value for p in found.parts}
    expected = {FEWER_STEPS: 150, DEARER_STEPS: -25, WAITING: 3, READING: -1, OUTSIDE: 5}
    assert parts == pytest.approx(expected)
    assert found.saved_ms.value == pytest.approx(sum(expected.values())) == pytest.approx(132)
    assert found.words == f"{FEWER_STEPS} saved 150.0 ms a request; {DEARER_STEPS} cost 25.0 ms"


def test_the_foretelling_uses_measured_acceptance_and_cost() -> None:
    found = two_blocks()
    assert found.tokens_per_step.value == pytest.approx(4.0)
    assert found.step_cost.value == pytest.approx(1.5)
    assert found.draft_cost == pytest.approx(0.125)
    assert found.foretold_decode.value == pytest.approx(4 / 1.5)
    assert found.foretold_request.value == pytest.approx(230 / (30 + 200 / (4 / 1.5)))
    assert found.measured_request.value == pytest.approx(230 / 98)
    assert found.alpha == pytest.approx(15 / 20)  # three of four reached places; the fourth is always rejected
    assert found.foretold_if_independent == pytest.approx(leviathan_tokens(0.75, K) / 1.5)


def test_what_is_not_there_is_told_and_never_a_zero() -> None:
    target, arm = run(0, BASELINE_ARM, e2e=230, step=10, steps=20), run(0, "ngram", e2e=98, step=15, steps=5)
    found = explained((target, arm.model_copy(update={"series": ()})))
    assert found.saved_ms.value is None
    assert all(part.saved_ms.value is None and part.saved_ms.why for part in found.parts)
    assert found.foretold_request.value is None
    assert found.words.startswith("not observable")


@pytest.mark.parametrize(
    ("alpha", "k", "speedup"),
    [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)],
)
def test_leviathans_table_of_free_drafts(alpha: float, k: int, speedup: float) -> None:
    assert leviathan_speedup(alpha, k, 0.0) == pytest.approx(speedup, abs=0.005)


@pytest.mark.parametrize(("alpha", "cost", "speedup"), [(0.75, 0.02, 3.16), (0.8, 0.04, 3.25), (0.82, 0.11, 2.50)])
def test_leviathans_predictions_with_drafts_that_cost(alpha: float, cost: float, speedup: float) -> None:
    assert leviathan_speedup(alpha, 7, cost) == pytest.approx(speedup, abs=0.005)


def test_what_cannot_be_foretold_is_not() -> None:
    assert leviathan_speedup(None, 4, 0.1) is None
    assert leviathan_speedup(0.5, 4, None) is None
    assert leviathan_speedup(1.0, 4, 0.0) == 5
