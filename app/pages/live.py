"""The live page's picture of an experiment: the schedule as a strip, and the newest numbers of each condition."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.condition import Condition
from app.domain.lifecycle import SESSION_MOVES, RunState, SessionState, is_terminal
from app.domain.manifest import Manifest
from app.domain.schedule import PlannedSession, plan
from app.domain.vocabulary import FailureClass
from app.runs.schemas import RunRead, SessionRead

PLANNED = "PLANNED"
MARKS_MAX = 1500
"""Runs that a strip shows one by one; of more it counts those of each session."""
PHASES = {
    SessionState.STARTING: "its server starts",
    SessionState.WARMING: "warming up",
    SessionState.MEASURING: "measuring",
    SessionState.VERIFYING: "verifying outputs, which is not timed",
    SessionState.DRAINING: "its server stops",
}
WORDS = {
    RunState.MEASURING: "running",
    RunState.SUCCEEDED: "done",
    RunState.FAILED: "failed",
    RunState.CANCELED: "canceled",
    RunState.LOST: "lost",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One run of the schedule: done, running, failed, void, canceled, lost, or waiting until it begins."""

    workload: str
    load: str
    word: str
    run: RunRead | None
    void_before: int = 0
    """Attempts whose client lagged, so that they were repeated."""

    @property
    def title(self) -> str:
        """The whole of it in words."""
        void = self.void_before
        repeated = f", after {void} void attempt{'s' if void > 1 else ''}" if void else ""
        return f"{self.workload} at {self.load}: {self.word}{repeated}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One session of the schedule with its runs in their order; ``state`` is ``PLANNED`` until it starts."""

    arm: str
    state: str
    session: SessionRead | None
    marks: tuple[Mark, ...] = ()

    @property
    def done(self) -> int:
        """Runs that count."""
        return sum(mark.word == "done" for mark in self.marks)

    @property
    def label(self) -> str:
        """What became of it, in a word."""
        told = self.state.lower()
        return f"asked again, {told}" if self.session is not None and self.session.diagnosing else told


@dataclass(frozen=True, slots=True)
class Lane:
    """One block: its sessions in the order in which they run. ``index`` counts from 0."""

    index: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Newest:
    """The latest run of one arm, or ``None`` while there is none."""

    arm: str
    run: RunRead | None


@dataclass(frozen=True, slots=True)
class NewestGroup:
    """The arms side by side on one workload at one load."""

    workload: str
    load: str
    offered: str
    rows: tuple[Newest, ...]


def schedule_grid(
    manifest: Manifest, sessions: Iterable[SessionRead], runs: Iterable[RunRead] = (), *, over: bool = False
) -> list[Lane]:
    """The seeded schedule with what became of each session and run; a later attempt replaces an earlier one.

    Servers that answer mismatches again come after the planned ones. What an experiment that is over never began waits
    for nothing.
    """
    newest = {(s.block, s.arm, s.diagnosing): s for s in sorted(sessions, key=lambda s: s.attempt)}
    begun: dict[tuple[int, str, str, str], list[RunRead]] = {}
    for run in sorted(runs, key=lambda r: (r.started_at, r.attempt)):
        begun.setdefault((run.block, run.arm, run.workload, run.load), []).append(run)

    def planned(block: int, session: PlannedSession) -> Cell:
        of = newest.get((block, session.arm, False))
        waits = not over and not (of and is_terminal(SESSION_MOVES, of.state))
        return _cell(session.arm, of, tuple(_mark(c, begun.get(_key(block, c), []), waits=waits) for c in session.runs))

    return [
        Lane(
            block.index,
            (
                *(planned(block.index, session) for session in block.sessions),
                *(_cell(s.arm, s) for s in newest.values() if s.block == block.index and s.diagnosing),
            ),
        )
        for block in plan(manifest)
    ]


def is_marked(lanes: Iterable[Lane]) -> bool:
    """Whether the runs are few enough to be shown one by one."""
    return sum(len(cell.marks) for lane in lanes for cell in lane.cells) <= MARKS_MAX


def newest_runs(manifest: Manifest, runs: Sequence[RunRead]) -> list[NewestGroup]:
    """Each condition with its latest run that has numbers, in the manifest's order; loads run low to high."""
    latest = {(r.arm, r.workload, r.load): r for r in sorted(runs, key=lambda r: r.block) if r.summary is not None}
    loads = sorted(manifest.loads, key=lambda p: p.level)
    return [
        NewestGroup(
            workload.name,
            load.name,
            load.offered,
            tuple(Newest(arm.name, latest.get((arm.name, workload.name, load.name))) for arm in manifest.arms),
        )
        for workload in manifest.workloads
        for load in loads
    ]


def _cell(arm: str, session: SessionRead | None, marks: tuple[Mark, ...] = ()) -> Cell:
    return Cell(arm, session.state if session else PLANNED, session, marks)


def _key(block: int, condition: Condition) -> tuple[int, str, str, str]:
    return block, condition.arm, condition.workload, condition.load


def _mark(condition: Condition, attempts: Sequence[RunRead], *, waits: bool) -> Mark:
    if not attempts:
        return Mark(condition.workload, condition.load, "waiting" if waits else "not run", None)
    newest = attempts[-1]
    word = "void" if is_void(newest) else WORDS[newest.state]
    return Mark(condition.workload, condition.load, word, newest, sum(map(is_void, attempts[:-1])))


def is_void(run: RunRead) -> bool:
    """Whether it counts for nothing because the client lagged: a fault of the host, not of the arm."""
    return run.failure is not None and run.failure.failure_class is FailureClass.GENERATOR_LIMITED
