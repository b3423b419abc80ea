import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.acceptance import (
    DraftCounts,
    broken_invariants,
    by_position,
    decode_steps,
    draft_counts,
    emitted_after_first,
    from_histogram,
    inconsistencies,
    mean_length_excl,
    mean_length_incl,
)
from app.domain.observation import SpeculationCounts
from tests.domain.evidence_factory import STEPS, make_observation


def told(accepted: list[int], drafted: list[int]) -> SpeculationCounts:
    """One request's counts, consistent with its steps."""
    return SpeculationCounts(
        num_spec_steps=len(accepted),
        num_draft_tokens=sum(drafted),
        num_accepted_draft_tokens=sum(accepted),
        per_step_accepted=tuple(accepted),
        per_step_drafted=tuple(drafted),
    )


def test_histogram_golden_of_vllm() -> None:
    counts = from_histogram([39, 1, 0, 3], k=3)
    assert counts == DraftCounts(drafts=43, drafted=129, accepted=10)
    assert mean_length_incl(counts) == pytest.approx(1.2325581395348837, abs=1e-15)
    assert counts.accepted / counts.drafted == pytest.approx(0.07751937984496124, abs=1e-16)
    assert mean_length_excl(counts) == pytest.approx(10 / 43)


@pytest.mark.parametrize(
    ("unconditional", "length", "rate"), [([0.798, 0.427], 2.23, 0.613), ([0.018, 0.0], 1.02, 0.009)]
)
def test_log_line_golden_length_and_rate_follow_from_positions(
    unconditional: list[float], length: float, rate: float
) -> None:
    drafts = 1000
    accepted = sum(round(u * drafts) for u in unconditional)
    counts = DraftCounts(drafts, drafts * len(unconditional), accepted)
    assert mean_length_incl(counts) == pytest.approx(length, abs=0.006)
    assert counts.accepted / counts.drafted == pytest.approx(rate, abs=0.001)


@pytest.mark.parametrize(("rate", "length"), [(0.5508, 2.65), (0.44, 2.32), (0.6657, 3.00)])
def test_rate_and_length_golden_at_k_three(rate: float, length: float) -> None:
    assert 1 + 3 * rate == pytest.approx(length, abs=0.006)
    assert mean_length_incl(DraftCounts(10_000, 30_000, round(30_000 * rate))) == pytest.approx(length, abs=0.006)


def test_synthetic_rates_golden_come_back_with_their_conditionals() -> None:
    steps = [3] * 20 + [2] * 30 + [1] * 30 + [0] * 20
    found = by_position([told(steps, [3] * 100)])
    assert found.unconditional == pytest.approx((0.8, 0.5, 0.2))
    assert found.conditional == pytest.approx((0.8, 0.625, 0.4))
    assert 1 + sum(found.unconditional) == pytest.approx(2.5)


def test_minimum_variance_schedule_golden() -> None:
    found = by_position([told([1] * 7 + [0], [3] * 8)])
    assert found.unconditional == pytest.approx((0.875, 0, 0))
    assert 1 + sum(found.unconditional) == 1.875
    assert found.conditional == (0.875, 0.0, None)


def test_conditional_acceptance_counts_only_steps_that_drafted_so_far() -> None:
    found = by_position([told([1, 2, 1], [1, 2, 2])])
    assert found.unconditional == pytest.approx((1.0, 1 / 3))
    assert found.conditional == (1.0, 0.5)


def test_nothing_drafted_has_no_positions() -> None:
    assert by_position([]).unconditional == ()
    assert mean_length_incl(DraftCounts()) is None
    assert draft_counts(make_observation("r")) == DraftCounts()


def test_emitted_length_of_a_baseline_is_one() -> None:
    plain = make_observation("r")
    assert emitted_after_first(plain) / decode_steps(plain) == 1


def test_emitted_length_with_every_chunk_seen() -> None:
    fast = make_observation("r", accepted=3)
    assert decode_steps(fast) == STEPS
    assert emitted_after_first(fast) / decode_steps(fast) == 4


def test_merged_chunks_do_not_lower_the_steps() -> None:
    fast = make_observation("r", accepted=3)
    merged = fast.model_copy(update={"chunk_ns": (fast.chunk_ns[0], fast.chunk_ns[-1]), "chunk_tokens": (1, 20)})
    assert decode_steps(merged) == STEPS


def test_drafts_cut_off_by_the_end_are_not_subtracted_from_the_steps() -> None:
    fast = make_observation("r", accepted=3)
    cut = fast.model_copy(update={"token_ids": fast.token_ids[:-2], "chunk_tokens": (1, 4, 4, 4, 4, 2)})
    assert decode_steps(cut) == STEPS


def test_contradictions_in_one_request_are_named() -> None:
    good = told([1, 2], [2, 2])
    assert inconsistencies(good) == ()
    assert inconsistencies(good.model_copy(update={"num_accepted_draft_tokens": 4})) == (
        "per_step_accepted does not sum to num_accepted_draft_tokens",
    )
    assert "a step accepted more than it drafted" in inconsistencies(told([3], [2]))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_identities_of_method_a2_hold_for_any_steps(pairs: list[tuple[int, int]]) -> None:
    accepted, drafted = [min(p) for p in pairs], [max(1, *p) for p in pairs]
    found = by_position([told(accepted, drafted)])
    at = [sum(a > j for a in accepted) for j in range(4)]
    counts = DraftCounts(len(pairs), sum(drafted), sum(accepted))
    assert broken_invariants(counts, at, 4) == ()
    assert mean_length_incl(counts) == pytest.approx(1 + sum(found.unconditional))
    assert list(found.unconditional) == sorted(found.unconditional, reverse=True)


@pytest.mark.parametrize(
    ("counts", "at", "words"),
    [
        (DraftCounts(10, 40, 12), [8, 5], "does not sum"),
        (DraftCounts(10, 40, 12), [5, 7], "rises"),
        (DraftCounts(10, 40, 11), [11], "exceeds drafts"),
        (DraftCounts(10, 41, 8), [8], "exceeds 4 per draft"),
        (DraftCounts(10, 7, 8), [8], "accepted exceeds drafted"),
    ],
)
def test_each_broken_identity_is_named(counts: DraftCounts, at: list[int], words: str) -> None:
    assert any(words in told for told in broken_invariants(counts, at, 4))
