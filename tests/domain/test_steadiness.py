"""Slow beginnings, drifts and collapses are found where they are, and rarely where there are none."""

import numpy as np
import pytest

from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.steadiness import beginning, collapsed, drift, kinds_of, paces, thirds, truncation
from app.domain.vocabulary import NS_PER_MS
from tests.domain.evidence_factory import make_observation

REQUESTS = 120


def noise(seed: int, count: int = REQUESTS, spread: float = 0.3) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, spread, count))


def of_pace(values: np.ndarray) -> list[RequestObservation]:
    """Requests that took so many milliseconds a token."""
    return [
        make_observation(f"low-{i}", due_ns=i * 10**9).model_copy(
            update={"chunk_ns": (i * 10**9 + round(pace * 21 * NS_PER_MS),), "chunk_tokens": (21,)}
        )
        for i, pace in enumerate(values)
    ]


def test_mser_removes_a_transient_of_known_length() -> None:
    values = noise(1, 500) * np.where(np.arange(500) < 60, 5.0, 1.0)
    found = truncation(list(values))
    assert found is not None
    assert 11 <= found.batches <= 13
    assert found.steady


def test_mser_says_not_steady_where_the_transient_fills_the_first_half() -> None:
    found = truncation(list(noise(2, 200) * np.where(np.arange(200) < 110, 4.0, 1.0)))
    assert found is not None
    assert not found.steady


def test_mser_seldom_takes_noise_for_a_transient() -> None:
    unsteady = sum(not found.steady for seed in range(200) if (found := truncation(list(noise(seed, 100)))))
    assert unsteady <= 12  # one in forty is expected: docs/controls.md
    assert truncation(list(noise(1, 99))) is None


@pytest.mark.parametrize("end", [1.6, 0.4])
def test_a_drift_is_found_in_both_directions(end: float) -> None:
    found = drift(list(noise(3) * np.linspace(1, end, REQUESTS)))
    assert found is not None
    assert found.found
    assert (found.change > 0) is (end > 1)


def test_noise_is_no_drift() -> None:
    assert not any(found.found for seed in range(200) if (found := drift(list(noise(seed)))))
    assert drift(list(noise(1, 99))) is None


def test_a_slow_beginning_is_a_leak_and_noise_is_none() -> None:
    slow = beginning(paces(of_pace(noise(4) * np.where(np.arange(REQUESTS) < 6, 3.0, 1.0)), {}))
    assert slow is not None
    assert slow.leaks
    assert not any(found.leaks for seed in range(100) if (found := beginning(paces(of_pace(noise(seed)), {}))))
    assert beginning(paces(of_pace(noise(1, 29)), {})) is None


def accepting(rates: list[float], seed: int) -> list[RequestObservation]:
    chance = np.random.default_rng(seed)
    return [
        make_observation(f"low-{i}", due_ns=i * 10**9).model_copy(update={"speculation": _counts(chance, rate)})
        for i, rate in enumerate(rates)
    ]


def _counts(chance: np.random.Generator, rate: float) -> SpeculationCounts:
    accepted = tuple(int(a) for a in chance.binomial(4, rate, size=10))
    return SpeculationCounts(
        num_spec_steps=10,
        num_draft_tokens=40,
        num_accepted_draft_tokens=sum(accepted),
        per_step_accepted=accepted,
        per_step_drafted=(4,) * 10,
    )


def test_acceptance_that_falls_by_more_than_half_has_collapsed() -> None:
    fallen = thirds(accepting([0.8] * 40 + [0.2] * 50, 5), {})
    assert fallen is not None
    assert collapsed(*fallen)
    slightly = thirds(accepting([0.8] * 40 + [0.5] * 50, 6), {})
    assert slightly is not None
    assert not collapsed(*slightly)
    assert thirds(accepting([0.8] * 29, 7), {}) is None


def test_a_trace_in_the_order_of_its_tasks_is_no_fault() -> None:
    """The slow task, of which little is accepted, comes first; beside its own kind nothing changes."""
    kinds = {f"low-{i}": "slow" if i < 30 else "quick" for i in range(REQUESTS)}
    of_task = np.where(np.arange(REQUESTS) < 30, 6.0, 1.0)
    values = paces(of_pace(noise(8) * of_task), kinds)
    begun, moved, cut = beginning(values), drift(values), truncation(values)
    assert begun is not None
    assert moved is not None
    assert cut is not None
    assert not begun.leaks
    assert not moved.found
    assert cut.steady
    sorted_by_task = thirds(accepting([0.8] * 45 + [0.2] * 45, 9), {f"low-{i}": i < 45 for i in range(90)})
    assert sorted_by_task is not None
    assert not collapsed(*sorted_by_task)
    fallen = thirds(accepting([0.8] * 45 + [0.2] * 45, 9), {f"low-{i}": i % 2 for i in range(90)})
    assert fallen is not None
    assert collapsed(*fallen)


def test_rare_kinds_are_one_kind() -> None:
    labels = {str(i): {"task": "common" if i < 50 else f"rare-{i}"} for i in range(60)}
    kinds = kinds_of(labels)
    assert {kinds[str(i)] for i in range(50)} == {frozenset({("task", "common")})}
    assert {kinds[str(i)] for i in range(50, 60)} == {None}
