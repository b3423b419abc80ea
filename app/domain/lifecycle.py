"""States of experiments, blocks, sessions, runs and accelerators, and their legal moves as one table each.

Terminal is final: no move leaves a terminal state.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from app.domain.errors import IllegalTransition


class ExperimentState(StrEnum):
    """An experiment is what its blocks are; CANCELED and FAILED are decided, not derived."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class BlockState(StrEnum):
    """A block is the unit of lease. LOST goes back to QUEUED with a higher attempt."""

    QUEUED = "QUEUED"
    LEASED = "LEASED"
    LOST = "LOST"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class SessionState(StrEnum):
    """One fresh server of one arm in one block. LOST: its worker went away; what it had finished may still count."""

    STARTING = "STARTING"
    WARMING = "WARMING"
    MEASURING = "MEASURING"
    VERIFYING = "VERIFYING"
    DRAINING = "DRAINING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    LOST = "LOST"


class RunState(StrEnum):
    """One replay of one workload at one load point in a session. LOST: half measured; kept, never counted."""

    MEASURING = "MEASURING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    LOST = "LOST"


class AcceleratorState(StrEnum):
    """A GPU (or the processor) as a place for one engine. Only a person takes it out of QUARANTINED."""

    FREE = "FREE"
    LEASED = "LEASED"
    QUARANTINED = "QUARANTINED"


_E, _B, _S, _R, _A = ExperimentState, BlockState, SessionState, RunState, AcceleratorState

EXPERIMENT_MOVES: Mapping[ExperimentState, frozenset[ExperimentState]] = {
    _E.QUEUED: frozenset({_E.RUNNING, _E.CANCELED, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.FAILED, _E.CANCELED}),
    _E.FINISHED: frozenset(),
    _E.FAILED: frozenset(),
    _E.CANCELED: frozenset(),
}
BLOCK_MOVES: Mapping[BlockState, frozenset[BlockState]] = {
    _B.QUEUED: frozenset({_B.LEASED, _B.CANCELED}),
    _B.LEASED: frozenset({_B.LOST, _B.SUCCEEDED, _B.FAILED, _B.CANCELED}),
    _B.LOST: frozenset({_B.QUEUED, _B.FAILED, _B.CANCELED}),
    _B.SUCCEEDED: frozenset(),
    _B.FAILED: frozenset(),
    _B.CANCELED: frozenset(),
}
SESSION_MOVES: Mapping[SessionState, frozenset[SessionState]] = {
    _S.STARTING: frozenset({_S.WARMING, _S.FAILED, _S.CANCELED, _S.LOST}),
    _S.WARMING: frozenset({_S.MEASURING, _S.VERIFYING, _S.FAILED, _S.CANCELED, _S.LOST}),
    _S.MEASURING: frozenset({_S.VERIFYING, _S.DRAINING, _S.FAILED, _S.CANCELED, _S.LOST}),
    _S.VERIFYING: frozenset({_S.DRAINING, _S.FAILED, _S.CANCELED, _S.LOST}),
    _S.DRAINING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELED, _S.LOST}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.LOST: frozenset(),
}
RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    _R.MEASURING: frozenset({_R.SUCCEEDED, _R.FAILED, _R.CANCELED, _R.LOST}),
    _R.SUCCEEDED: frozenset(),
    _R.FAILED: frozenset(),
    _R.CANCELED: frozenset(),
    _R.LOST: frozenset(),
}
ACCELERATOR_MOVES: Mapping[AcceleratorState, frozenset[AcceleratorState]] = {
    _A.FREE: frozenset({_A.LEASED, _A.QUARANTINED}),
    _A.LEASED: frozenset({_A.FREE, _A.QUARANTINED}),
    _A.QUARANTINED: frozenset({_A.FREE}),
}


S = TypeVar("S", bound=StrEnum)


def check_move(moves: Mapping[S, frozenset[S]], source: S, target: S) -> None:
    """Raise ``IllegalTransition`` unless ``source → target`` is in the table."""
    if target not in moves[source]:
        legal = ", ".join(sorted(moves[source])) or "nothing: it is terminal"
        raise IllegalTransition.of("state", f"{source} cannot become {target}", f"from {source} it may become {legal}")


def sources_of(moves: Mapping[S, frozenset[S]], target: S) -> frozenset[S]:
    """The states from which ``target`` may be reached in one move (for conditional updates)."""
    return frozenset(source for source, targets in moves.items() if target in targets)


def is_terminal(moves: Mapping[S, frozenset[S]], state: S) -> bool:
    """Whether nothing may follow ``state``."""
    return not moves[state]
