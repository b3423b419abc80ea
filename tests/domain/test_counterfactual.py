"""What a shorter draft or a router would have given: simulated both ways, so that the truth is known."""

import random
from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.condition import Condition
from app.domain.counterfactual import counterfactuals, headroom, steps_with
from app.domain.observation import SpeculationCounts
from app.domain.pairing import CompleteBlocks, complete_blocks
from tests.domain.evidence_factory import Dials, K, make_evidence, make_manifest

Guessed = Sequence[bool]
"""For each place in the output: would the draft have guessed its token?"""


def simulate(guessed: Guessed, k: int) -> list[int]:
    """Accepted tokens of each step: as many guesses as hold, at most ``k``; then the target's own token."""
    place, accepted = 0, list[int]()
    while place < len(guessed):
        accepted.append(sum(1 for _ in takewhile(bool, guessed[place : place + k])))
        place += accepted[-1] + 1
    return accepted


def told(accepted: Sequence[int], k: int) -> SpeculationCounts:
    return SpeculationCounts(
        num_spec_steps=len(accepted),
        num_draft_tokens=k * len(accepted),
        num_accepted_draft_tokens=sum(accepted),
        per_step_accepted=tuple(accepted),
        per_step_drafted=(k,) * len(accepted),
    )


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 5), st.data())
def test_the_truth_lies_between_the_two_foretellings(guessed: list[bool], own: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, own))
    guessed.append(False)  # the end of an output ends its last run
    recorded, truth = told(simulate(guessed, own), own), len(simulate(guessed, k))
    fewest, most = (steps_with(recorded, own, k, guessed=choice) for choice in (True, False))
    assert fewest - 1 <= truth <= most + 1  # one step at the end may emit past it
    if k == own:
        assert fewest == most == len(simulate(guessed, own))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_long_output_is_foretold_within_its_bracket(k: int) -> None:
    rng = random.Random(k)
    guessed = [rng.random() < 0.7 for _ in range(20_000)]
    recorded, truth = told(simulate(guessed, 4), 4), len(simulate(guessed, k))
    fewest, most = (steps_with(recorded, 4, k, guessed=choice) for choice in (True, False))
    assert fewest <= truth <= most
    assert most / fewest < 1.2  # a bracket that says something


def measured() -> CompleteBlocks:
    return complete_blocks(make_evidence(Dials(speedup={"low": 2.0})))


def test_every_shorter_k_is_told_and_the_arm_itself_is_the_check_of_its_own() -> None:
    blocks = measured()
    found = list(counterfactuals(make_manifest(), blocks, Condition("ngram", "copy", "low"), 1.5))
    assert [one.k for one in found] == list(range(1, K + 1))
    own = found[-1]
    assert own.tokens_per_step_low == own.tokens_per_step_high == own.measured_tokens_per_step
    assert (own.step_cost, own.checked_by, found[0].checked_by) == (1.5, "ngram", None)
    assert found[0].step_cost == 1 + 0.5 / K
    assert own.decode_speedup_high == own.tokens_per_step_high / 1.5
    assert not list(counterfactuals(make_manifest(), CompleteBlocks((), {}), Condition("ngram", "copy", "low"), 1.5))


def test_a_router_is_judged_on_blocks_that_it_did_not_see() -> None:
    found = headroom(make_manifest(), measured(), "copy", "low")
    assert found.best_arm.value == pytest.approx(2.0, rel=0.02)
    assert found.per_request.value == pytest.approx(2.0, rel=0.02)
    nothing = headroom(make_manifest(), complete_blocks(make_evidence(Dials())), "copy", "high")
    assert nothing.per_request.value == pytest.approx(1.0, rel=0.02)  # chance differences are no headroom
    assert headroom(make_manifest(blocks=1), CompleteBlocks((), {}), "copy", "low").best_arm.value is None
