"""What a block that was interrupted still has to measure. Pure.

Runs that were finished before count on; the half-measured one is measured again in a fresh server of its arm.
Where the arms would then lie too far apart in time, or on other accelerators, nothing of before counts.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from app.domain.condition import Condition
from app.domain.schedule import PlannedBlock, PlannedSession
from app.domain.verified import VERIFIED_BLOCKS

GAP_MAX_S: Final = 900.0
"""Hosts drift (method A12). A healthy block may itself wait this long between two arms, for a slow start-up."""


@dataclass(frozen=True, slots=True)
class EarlierSession:
    """A session of the attempt before. ``idle_s``: seconds since it ended; ``over``: it ended by itself."""

    id: UUID
    arm: str
    over: bool
    succeeded: frozenset[Condition]
    idle_s: float
    accelerators: tuple[str, ...]
    verified: bool = False
    """Whether what it was asked beside its runs is recorded."""

    @property
    def is_useful(self) -> bool:
        return self.over or bool(self.succeeded)


@dataclass(frozen=True, slots=True)
class Resumption:
    """Which earlier sessions count on and what is still to be measured; ``restarted``: why nothing counts on."""

    adopted: tuple[UUID, ...]
    sessions: tuple[PlannedSession, ...]
    restarted: str | None = None


def resume(
    planned: PlannedBlock,
    earlier: Sequence[EarlierSession],
    *,
    accelerators: Collection[str],
    indivisible: Collection[str] = (),
) -> Resumption:
    """Plan the rest of a block; arms in ``indivisible`` (caches that learn) are measured whole or not at all."""
    useful = [s for s in earlier if s.over or (s.is_useful and s.arm not in indivisible)]
    if reason := _too_far(useful, accelerators):
        return Resumption((), planned.sessions, reason)
    verifies = planned.index < VERIFIED_BLOCKS
    rest = (
        _rest(session, [s for s in useful if s.arm == session.arm], verifies=verifies) for session in planned.sessions
    )
    return Resumption(tuple(s.id for s in useful), tuple(session for session in rest if session is not None))


def _too_far(useful: Sequence[EarlierSession], accelerators: Collection[str]) -> str | None:
    if any(set(s.accelerators) != set(accelerators) for s in useful):
        return "its arms would have been measured on different accelerators"
    gap_s = min((s.idle_s for s in useful), default=0.0)
    if gap_s > GAP_MAX_S:
        return f"its arms would have lain {gap_s / 60:.0f} minutes apart, more than {GAP_MAX_S / 60:.0f}"
    return None


def _rest(session: PlannedSession, done: Sequence[EarlierSession], *, verifies: bool) -> PlannedSession | None:
    """What is left of an arm; a session without runs only verifies."""
    if any(s.over for s in done):
        return None
    measured = frozenset[Condition]().union(*(s.succeeded for s in done))
    runs = tuple(run for run in session.runs if run not in measured)
    is_verified = not verifies or any(s.verified for s in done)
    return None if is_verified and not runs else replace(session, runs=runs)
