"""The judgment on a rejection sampler, held to samplers that are right, wrong and beyond telling."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from app.domain import sampler_truth as truth
from app.domain.sampler_judgment import AssertionOutcome, CaseCounts, judge_case
from app.domain.sampler_truth import Row, SamplerCase
from worker.sampler.cases import cases

ROWS = 15_000
Recovers = Callable[[Row, Row], list[float]]
CASES = {case.name: case for case in cases()}
SAMPLED = CASES["sampled drafts, temperature 1"]
CERTAIN = CASES["certain drafts, temperature 1"]


def residual(p: Row, q: Row) -> list[float]:
    return [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]


def from_target(p: Row, _q: Row) -> list[float]:
    """The mutant that draws a rejected token anew from p."""
    return list(p)


def run(
    case: SamplerCase, *, recovers: Recovers = residual, heat: float = 1.0, always: bool = False, count: int = ROWS
) -> CaseCounts:
    """A sampler in plain Python: what the engine's does to rows without seeds, masks or greedy neighbours."""
    chance, size, k = random.Random(5), len(case.target_logits[0]), case.k
    rows = [truth.target_row(case, place, heat=heat) for place in range(k + 1)]
    drafts = [truth.draft_row(case, place) for place in range(k)]
    outcome = [[[0] * size, [0] * size] for _ in range(k)]
    pairs = [[[0] * size for _ in range(size)] for _ in range(k)]
    bonus = [0] * size
    for _ in range(count):
        out: list[int] = []
        for place in range(k):
            p = rows[place]
            drafted = chance.choices(range(size), drafts[place])[0]
            certain = tuple(float(token == drafted) for token in range(size))
            q = (case.draft_probabilities or ())[place] if case.hands_over_probabilities else certain
            if always or chance.random() < p[drafted] / q[drafted]:
                outcome[place][1][drafted] += 1
                out.append(drafted)
                continue
            out.append(chance.choices(range(size), recovers(p, q))[0])
            outcome[place][0][out[-1]] += 1
            break
        else:
            out.append(chance.choices(range(size), rows[k])[0])
            bonus[out[-1]] += 1
        for place, (first, second) in enumerate(pairwise(out)):
            pairs[place][first][second] += 1
    return CaseCounts.model_validate({"outcome": outcome, "bonus": bonus, "pairs": pairs})


def outcomes(case: SamplerCase, counts: CaseCounts) -> dict[str, AssertionOutcome]:
    return {one.claim: one.outcome for one in judge_case(case, counts)}


@pytest.mark.parametrize("case", [SAMPLED, CERTAIN, CASES["sampled drafts whose probabilities are missing"]])
def test_a_right_sampler_is_not_accused(case: SamplerCase) -> None:
    """Also where a sampled draft is verified as a certain one: it accepts less, and puts out the same."""
    found = outcomes(case, run(case))
    assert AssertionOutcome.FAIL not in found.values()
    assert found["token at 0"] is AssertionOutcome.PASS
    assert found["accepted and recovered at 0"] is AssertionOutcome.PASS


@pytest.mark.parametrize("case", [SAMPLED, CERTAIN])
def test_resampling_from_the_target_fails(case: SamplerCase) -> None:
    assert outcomes(case, run(case, recovers=from_target))["token at 0"] is AssertionOutcome.FAIL


def test_always_accepting_fails() -> None:
    found = outcomes(SAMPLED, run(SAMPLED, always=True))
    assert found["token at 0"] is found["accepted and recovered at 0"] is AssertionOutcome.FAIL


def test_another_temperature_fails() -> None:
    assert outcomes(SAMPLED, run(SAMPLED, heat=truth.SHIFTED))["token at 0"] is AssertionOutcome.FAIL


def test_few_rows_are_not_a_pass() -> None:
    few = run(SAMPLED, count=40)
    assert set(outcomes(SAMPLED, few).values()) == {AssertionOutcome.NOT_CHECKABLE}


def test_a_control_must_be_rejected() -> None:
    control = CASES["control: argmax drafts with probabilities"]
    right = control.model_copy(update={"draft_tokens": None, "is_control": True})
    assert outcomes(control, run(control, recovers=residual)) == {"is rejected": AssertionOutcome.PASS}
    assert outcomes(right, run(right)) == {"is rejected": AssertionOutcome.NOT_CHECKABLE}


def test_greedy_rows() -> None:
    case = CASES["sampled drafts, every third row greedy"]
    best = list(truth.greedy_output(case, (99, 99)))
    assert len(best) == 1
    whole = truth.greedy_output(case, (best[0], max(range(10), key=lambda t: case.target_logits[1][t])))
    assert len(whole) == case.k + 1
    greedy = {f"[99, 99] {best}": 5, f"{list(whole[:-1])} {list(whole)}": 7}
    counts = run(SAMPLED).model_copy(update={"greedy": greedy})
    claim = "greedy rows among sampled ones"
    assert outcomes(case, counts)[claim] is AssertionOutcome.PASS
    wrong = counts.model_copy(update={"greedy": {**greedy, f"[99, 99] {[best[0] + 1]}": 1}})
    assert outcomes(case, wrong)[claim] is AssertionOutcome.FAIL


def test_masks_and_penalties_in_the_engines_order() -> None:
    case = CASES["certain drafts, top-k 6 and top-p 0.9"]
    row = truth.target_row(case, 0)
    assert sum(row) == pytest.approx(1)
    assert 0 < sum(p > 0 for p in row) <= 6
    penalised = CASES["certain drafts, penalties"]
    plain, changed = truth.target_row(CERTAIN, 0), truth.target_row(penalised, 0)
    assert changed[3] < plain[3]  # said twice before
