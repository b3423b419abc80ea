"""The live page's picture of an experiment: the schedule as a grid, and the newest numbers of each condition."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.manifest import Manifest
from app.domain.schedule import plan
from app.runs.schemas import RunRead, SessionRead

PLANNED = "PLANNED"


@dataclass(frozen=True, slots=True)
class Cell:
    """One session of the schedule; ``state`` is ``PLANNED`` until it starts."""

    arm: str
    state: str
    session: SessionRead | None

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


def schedule_grid(manifest: Manifest, sessions: Iterable[SessionRead]) -> list[Lane]:
    """The seeded schedule with what became of each session; a later attempt replaces an earlier one.

    Servers that answer mismatches again come after the planned ones.
    """
    newest = {(s.block, s.arm, s.diagnosing): s for s in sorted(sessions, key=lambda s: s.attempt)}
    return [
        Lane(
            block.index,
            (
                *(_cell(p.arm, newest.get((block.index, p.arm, False))) for p in block.sessions),
                *(_cell(s.arm, s) for s in newest.values() if s.block == block.index and s.diagnosing),
            ),
        )
        for block in plan(manifest)
    ]


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


def _cell(arm: str, session: SessionRead | None) -> Cell:
    return Cell(arm, session.state if session else PLANNED, session)
