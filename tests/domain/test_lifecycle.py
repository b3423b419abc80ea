from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from app.domain.errors import IllegalTransition
from app.domain.lifecycle import (
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    RUN_MOVES,
    SESSION_MOVES,
    BlockState,
    ExperimentState,
    RunState,
    SessionState,
    check_move,
    is_terminal,
    sources_of,
)

TABLES: list[tuple[type[StrEnum], Mapping[Any, frozenset[Any]]]] = [
    (ExperimentState, EXPERIMENT_MOVES),
    (BlockState, BLOCK_MOVES),
    (SessionState, SESSION_MOVES),
    (RunState, RUN_MOVES),
]
ENDS = {"FINISHED", "SUCCEEDED", "FAILED", "CANCELED"}


@pytest.mark.parametrize(("states", "moves"), TABLES, ids=lambda v: getattr(v, "__name__", ""))
def test_every_state_has_its_row_and_ends_are_final(states: type[StrEnum], moves: Mapping[Any, frozenset[Any]]) -> None:
    assert set(moves) == set(states)
    assert {str(s) for s in states if is_terminal(moves, s)} == ENDS & set(states)
    for end in (s for s in states if is_terminal(moves, s)):
        for target in states:
            with pytest.raises(IllegalTransition, match="terminal"):
                check_move(moves, end, target)


@pytest.mark.parametrize(("states", "moves"), TABLES, ids=lambda v: getattr(v, "__name__", ""))
def test_every_state_but_the_first_can_be_reached(states: type[StrEnum], moves: Mapping[Any, frozenset[Any]]) -> None:
    first, *others = states
    reached, frontier = {first}, [first]
    while frontier:
        new = moves[frontier.pop()] - reached
        reached |= new
        frontier += new
    assert reached >= set(others)


@pytest.mark.parametrize(("states", "moves"), TABLES, ids=lambda v: getattr(v, "__name__", ""))
def test_sources_are_the_moves_read_backwards(states: type[StrEnum], moves: Mapping[Any, frozenset[Any]]) -> None:
    for target in states:
        assert sources_of(moves, target) == {source for source in states if target in moves[source]}


def test_a_lost_block_is_queued_again_and_a_finished_one_is_not() -> None:
    check_move(BLOCK_MOVES, BlockState.LOST, BlockState.QUEUED)
    with pytest.raises(IllegalTransition) as refused:
        check_move(BLOCK_MOVES, BlockState.SUCCEEDED, BlockState.QUEUED)
    assert refused.value.problems[0].field == "state"


def test_any_session_under_way_may_fail_or_be_canceled() -> None:
    under_way = set(SessionState) - {SessionState.SUCCEEDED, SessionState.FAILED, SessionState.CANCELED}
    assert sources_of(SESSION_MOVES, SessionState.FAILED) == under_way
    assert sources_of(SESSION_MOVES, SessionState.CANCELED) == under_way
