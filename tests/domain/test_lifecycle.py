from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from app.domain.errors import IllegalTransition
from app.domain.lifecycle import (
    ACCELERATOR_MOVES,
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    RUN_MOVES,
    SESSION_MOVES,
    AcceleratorState,
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
    (AcceleratorState, ACCELERATOR_MOVES),
]
ENDS = {"FINISHED", "SUCCEEDED", "FAILED", "CANCELED"}
ENDS_OF_WORK = ENDS | {"LOST"}
"""A lost block is tried again; a lost session or run stays what it is."""


@pytest.mark.parametrize(("states", "moves"), TABLES, ids=lambda v: getattr(v, "__name__", ""))
def test_every_state_has_its_row_and_ends_are_final(states: type[StrEnum], moves: Mapping[Any, frozenset[Any]]) -> None:
    assert set(moves) == set(states)
    ends = ENDS_OF_WORK if states in {SessionState, RunState} else ENDS
    assert {str(s) for s in states if is_terminal(moves, s)} == ends & set(states)
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


def test_any_session_under_way_may_fail_be_canceled_or_be_lost() -> None:
    under_way = {s for s in SessionState if s not in ENDS_OF_WORK}
    for end in (SessionState.FAILED, SessionState.CANCELED, SessionState.LOST):
        assert sources_of(SESSION_MOVES, end) == under_way


def test_nothing_but_a_person_takes_an_accelerator_out_of_quarantine_and_only_to_free() -> None:
    assert ACCELERATOR_MOVES[AcceleratorState.QUARANTINED] == {AcceleratorState.FREE}
    with pytest.raises(IllegalTransition):
        check_move(ACCELERATOR_MOVES, AcceleratorState.QUARANTINED, AcceleratorState.LEASED)
