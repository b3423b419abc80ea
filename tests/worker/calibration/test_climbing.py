"""Where a ladder is entered, climbed and left, with attempts that end as they are told to."""

from app.domain.client_range import ClientAttempt
from tests.factories_client import make_attempt, make_late
from worker.calibration.climbing import climb
from worker.calibration.ladders import FIRST_MS, Ladder, Rung, full, quick

LADDER = Ladder(tuple(Rung("short", ((FIRST_MS, 1),), rate, 1.0) for rate in (1, 2, 5, 10, 20)), start=2)


async def climbed(ladder: Ladder, **endings: str) -> tuple[list[tuple[float, bool]], list[float]]:
    """The cells, and the rates in the order in which they were tried. ``at_5="fk"``: late, then in time."""
    tried: list[float] = []

    async def attempt(rung: Rung, number: int) -> ClientAttempt:
        tried.append(rung.rate_rps)
        ending = endings.get(f"at_{rung.rate_rps:g}", "kkk")
        return make_attempt() if ending[number - 1] == "k" else make_late()

    cells = await climb(ladder, attempt)
    return [(cell.rate_rps, cell.passed) for cell in cells], tried


async def test_from_the_start_up_to_the_top() -> None:
    cells, tried = await climbed(LADDER)
    assert cells == [(5, True), (10, True), (20, True)]
    assert tried == [5, 5, 10, 10, 20, 20]


async def test_two_cells_in_a_row_that_fail_are_the_last() -> None:
    longer = Ladder((*LADDER.rungs, Rung("short", ((FIRST_MS, 1),), 50, 1.0)), start=2)
    cells, tried = await climbed(longer, at_10="ff", at_20="ff")
    assert cells == [(5, True), (10, False), (20, False)]
    assert tried == [5, 5, 10, 10, 20, 20]


async def test_one_spoiled_cell_does_not_end_the_climb() -> None:
    cells, _ = await climbed(LADDER, at_10="ff")
    assert cells == [(5, True), (10, False), (20, True)]
    cells, tried = await climbed(LADDER, at_5="ff")
    assert cells == [(5, False), (10, True), (20, True)]
    assert min(tried) == 5


async def test_a_stall_costs_a_further_attempt_and_not_the_cell() -> None:
    cells, tried = await climbed(LADDER, at_5="fkk", at_10="kfk", at_20="kff")
    assert cells == [(5, True), (10, True), (20, False)]
    assert tried == [5, 5, 5, 10, 10, 10, 20, 20, 20]


async def test_a_host_that_fails_at_the_start_and_above_is_looked_at_below() -> None:
    cells, tried = await climbed(LADDER, at_5="ff", at_10="ff", at_2="fkf")
    assert cells == [(1, True), (2, False), (5, False), (10, False)]
    assert tried == [5, 5, 10, 10, 2, 2, 2, 1, 1]


async def test_a_host_that_fails_everywhere_has_tried_everything_below() -> None:
    cells, _ = await climbed(LADDER, at_10="ff", at_5="ff", at_2="ff", at_1="ff")
    assert cells == [(1, False), (2, False), (5, False), (10, False)]


def test_the_ladders_ascend_and_keep_the_strict_limit() -> None:
    for ladder in (*full(), *quick()):
        rates = [rung.rate_rps for rung in ladder.rungs]
        assert rates == sorted(set(rates))
        for rung in ladder.rungs:
            assert rung.schedule[0][0] <= 50  # beyond it, 2 % of the first token's time is more than 1 ms
            assert all(1 <= tokens <= 8 for _, tokens in rung.schedule)
            offsets = rung.offsets_ns(1)
            assert len(offsets) == round(rung.rate_rps * rung.window_s)
            assert len(offsets) * len(rung.schedule) <= 100_100
            assert offsets != rung.offsets_ns(2)


def test_the_whole_command_reaches_from_ten_a_second_to_thousands_and_to_crowds() -> None:
    rungs = [rung for ladder in full() for rung in ladder.rungs]
    assert {10, 100, 1000, 4000} <= {rung.rate_rps for rung in rungs if rung.shape == "short"}
    assert {len(rung.schedule) for rung in rungs} == {2, 4, 64, 400}
    assert max(rung.rate_rps * rung.answer_ns / 10**9 for rung in rungs if rung.shape == "crowd") == 4096


def test_quick_is_a_fraction_of_it() -> None:
    def seconds(ladders: tuple[Ladder, ...]) -> float:
        tried = [rung for ladder in ladders for rung in ladder.rungs[ladder.start :]]
        return 2 * sum(rung.window_s + rung.answer_ns / 10**9 for rung in tried)

    assert seconds(quick()) < 25
    assert 100 < seconds(full()) < 150
