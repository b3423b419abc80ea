"""Where in the output each draft began: exact where chunks and steps fit in one way only, and left out otherwise."""

import random

import pytest

from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.output_position import along_output, placed_steps, steps_of
from tests.domain.evidence_factory import make_observation


def answer(chunks: tuple[int, ...], steps: list[tuple[int, int]], name: str = "low-0") -> RequestObservation:
    """An answer in these chunks whose drafting steps had (drafted, accepted)."""
    drafted, accepted = tuple(d for d, _ in steps), tuple(a for _, a in steps)
    told = SpeculationCounts(
        num_spec_steps=len(steps),
        num_draft_tokens=sum(drafted),
        num_accepted_draft_tokens=sum(accepted),
        per_step_accepted=accepted,
        per_step_drafted=drafted,
    )
    return make_observation(name).model_copy(update={"chunk_tokens": chunks, "speculation": told})


@pytest.mark.parametrize(
    ("chunks", "steps", "placed"),
    [
        ((1, 4, 3, 1), [(4, 3), (4, 2), (4, 0)], ((1, 4, 3), (5, 4, 2), (8, 4, 0))),
        ((1, 1, 1, 4), [(4, 3)], ((3, 4, 3),)),  # two steps without a draft come first
        ((1, 1, 1, 4), [(4, 0), (4, 0), (4, 3)], ((1, 4, 0), (2, 4, 0), (3, 4, 3))),
        ((1, 4, 1, 2), [(4, 3), (2, 1)], ((1, 4, 3), (6, 2, 1))),
        ((1, 4, 2), [(4, 3), (4, 4)], ((1, 4, 3), (5, 4, 4))),  # the end of the output cut the last one
        ((1, 4, 1), [(4, 3), (4, 4)], ((1, 4, 3), (5, 4, 4))),  # to a single token
        ((1, 1), [], ()),
    ],
)
def test_steps_are_placed(
    chunks: tuple[int, ...], steps: list[tuple[int, int]], placed: tuple[tuple[int, int, int], ...]
) -> None:
    assert steps_of(answer(chunks, steps)) == placed


@pytest.mark.parametrize(
    ("chunks", "steps"),
    [
        ((1, 1, 1, 4), [(4, 0), (4, 3)]),  # either of two single tokens may be the failed draft
        ((1, 7), [(4, 3), (4, 2)]),  # the server merged two steps into a chunk
        ((1, 4, 3), [(4, 3)]),  # a chunk of three that no step accounts for
        ((1, 0, 4), [(4, 3)]),  # a chunk of unknown size
    ],
)
def test_what_fits_in_no_way_or_in_more_than_one_is_left_out(
    chunks: tuple[int, ...], steps: list[tuple[int, int]]
) -> None:
    assert steps_of(answer(chunks, steps)) is None
    along = along_output([("low-0", placed_steps(answer(chunks, steps)))])
    assert (along.placed, along.drafting, along.ranges) == (0, 1, ())


def simulated(seed: int, rate_of: dict[int, float], tokens: int = 200) -> RequestObservation:
    """An answer whose drafts are accepted at another rate from some output token on."""
    chance, chunks, steps = random.Random(seed), [1], list[tuple[int, int]]()
    while sum(chunks) < tokens:
        rate = rate_of[max(start for start in rate_of if start <= sum(chunks))]
        accepted = next((i for i in range(4) if chance.random() >= rate), 4)
        steps.append((4, accepted))
        chunks.append(min(accepted + 1, tokens - sum(chunks)))
    return answer(tuple(chunks), steps, f"low-{seed}")


def test_a_change_along_the_output_is_recovered() -> None:
    along = along_output((str(seed), placed_steps(simulated(seed, {0: 0.9, 64: 0.4}))) for seed in range(200))
    assert along.placed == along.drafting == 200
    rates = {part.first: part.rate.value for part in along.ranges}
    assert all(0.75 < (rates[first] or 0) < 0.90 for first in (1, 16, 32))
    assert all(0.10 < (rates[first] or 0) < 0.25 for first in (64, 128))
    assert [part.last for part in along.ranges] == [15, 31, 63, 127, 255]
    assert sum(part.accepted for part in along.ranges) > 0


def test_a_request_of_several_blocks_is_one_cluster() -> None:
    blocks = [("same", placed_steps(simulated(seed, {0: 0.7}))) for seed in range(5)]
    along = along_output(blocks)
    assert along.placed == 5
    assert {part.rate.n for part in along.ranges} == {1}
