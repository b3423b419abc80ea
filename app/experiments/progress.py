"""How far an experiment has come, from plain facts about its blocks, sessions and runs. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.domain.evidence import Failure
from app.domain.lifecycle import (
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    RUN_MOVES,
    SESSION_MOVES,
    BlockState,
    ExperimentState,
    RunState,
    SessionState,
    is_terminal,
)
from app.domain.manifest import Manifest
from app.domain.vocabulary import FailureClass
from app.experiments.schemas import OWNER, PRIORITY, ArmWord, CurrentRead, ExperimentRead, FailureRead, Links
from app.experiments.time_left import TimeLeft, time_left
from app.experiments.waiting import Wanted

COMMITTED = (BlockState.SUCCEEDED, BlockState.FAILED)


@dataclass(frozen=True, slots=True)
class BlockFact:
    """One block."""

    index: int
    state: BlockState
    failure: Failure | None
    cancel_requested: bool = False
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class SessionFact:
    """One session of the attempt that counts. ``wall_s`` is until now while it is open."""

    block: int
    arm: str
    state: SessionState
    failure: Failure | None
    wall_s: float


@dataclass(frozen=True, slots=True)
class RunFact:
    """One run of the attempt that counts."""

    block: int
    arm: str
    workload: str
    load: str
    state: RunState
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known of one experiment."""

    manifest: Manifest
    digest: str
    state: ExperimentState
    version: int
    created_at: datetime
    finished_at: datetime | None
    owner: str = OWNER
    priority: int = PRIORITY
    tags: Sequence[str] = ()
    archived: bool = False
    verdicts: Sequence[ArmWord] | None = None
    waits_because: str | None = None
    blocks: list[BlockFact] = field(default_factory=list[BlockFact])
    sessions: list[SessionFact] = field(default_factory=list[SessionFact])
    runs: list[RunFact] = field(default_factory=list[RunFact])

    @property
    def committed(self) -> int:
        """Blocks that a report may read."""
        return sum(b.state in COMMITTED for b in self.blocks)


def read(facts: Facts) -> ExperimentRead:
    """The experiment as the API shows it."""
    manifest = facts.manifest
    sessions_planned = manifest.blocks * len(manifest.arms)
    done = [s for s in facts.sessions if is_terminal(SESSION_MOVES, s.state)]
    left = _time_left(facts)
    return ExperimentRead(
        id=facts.digest,
        name=manifest.name,
        state=facts.state,
        version=facts.version,
        created_at=facts.created_at,
        finished_at=facts.finished_at,
        owner=facts.owner,
        priority=facts.priority,
        tags=list(facts.tags),
        archived=facts.archived,
        verdicts=None if facts.verdicts is None else list(facts.verdicts),
        cancel_requested=_is_stopping(facts),
        waits_because=facts.waits_because,
        blocks_planned=manifest.blocks,
        blocks_complete=sum(b.state is BlockState.SUCCEEDED for b in facts.blocks),
        sessions_planned=sessions_planned,
        sessions_done=len(done),
        runs_planned=sessions_planned * len(manifest.workloads) * len(manifest.loads),
        runs_done=_runs_done(facts),
        current=_current(facts),
        seconds_left=left.expected_s if left else None,
        seconds_left_low=left.low_s if left else None,
        seconds_left_high=left.high_s if left else None,
        failures=list(_failures(facts)),
        links=_links(facts.digest),
    )


def wanted(facts: Facts) -> Wanted | None:
    """What its queued blocks wait for; ``None`` while one is leased, or once none is left."""
    states = {b.state for b in facts.blocks}
    if is_terminal(EXPERIMENT_MOVES, facts.state) or BlockState.QUEUED not in states or BlockState.LEASED in states:
        return None
    times = [b.not_before for b in facts.blocks if b.state is BlockState.QUEUED]
    hardware = facts.manifest.hardware
    known = [at for at in times if at is not None]
    return Wanted(hardware.accelerator, hardware.count, min(known) if len(known) == len(times) else None)


def _is_stopping(facts: Facts) -> bool:
    return not is_terminal(EXPERIMENT_MOVES, facts.state) and any(b.cancel_requested for b in facts.blocks)


def _runs_done(facts: Facts) -> int:
    """Replays that are over; one that is being repeated is not."""
    ended = {_replay(r) for r in facts.runs if is_terminal(RUN_MOVES, r.state)}
    return len(ended - {_replay(r) for r in facts.runs if not is_terminal(RUN_MOVES, r.state)})


def _replay(run: RunFact) -> tuple[int, str, str, str]:
    return run.block, run.arm, run.workload, run.load


def _current(facts: Facts) -> CurrentRead | None:
    session = next((s for s in facts.sessions if not is_terminal(SESSION_MOVES, s.state)), None)
    if session is None:
        return None
    here = [r for r in facts.runs if (r.block, r.arm) == (session.block, session.arm) and r.state is RunState.MEASURING]
    run = here[0] if here else None
    return CurrentRead(
        block=session.block,
        arm=session.arm,
        workload=run.workload if run else None,
        load=run.load if run else None,
        session_state=session.state,
    )


def _time_left(facts: Facts) -> TimeLeft | None:
    """What blocks still owe, at the pace of the sessions that succeeded."""
    if is_terminal(EXPERIMENT_MOVES, facts.state):
        return TimeLeft(0.0, 0.0, 0.0)
    walls: dict[str, list[float]] = {}
    for session in facts.sessions:
        if session.state is SessionState.SUCCEEDED:
            walls.setdefault(session.arm, []).append(session.wall_s)
    open_blocks = {b.index for b in facts.blocks if not is_terminal(BLOCK_MOVES, b.state)}
    ended = {(s.block, s.arm) for s in facts.sessions if is_terminal(SESSION_MOVES, s.state)}
    running = [s for s in facts.sessions if s.block in open_blocks and not is_terminal(SESSION_MOVES, s.state)]
    arms = [arm.name for arm in facts.manifest.arms]
    owed = [arm for block in open_blocks for arm in arms if (block, arm) not in ended]
    return time_left(owed, walls, sum(s.wall_s for s in running))


def _failures(facts: Facts) -> Iterator[FailureRead]:
    for block in facts.blocks:
        yield from _failure((f"block {block.index + 1}",), block.failure)
    for session in facts.sessions:
        yield from _failure((f"block {session.block + 1}", session.arm), session.failure)
    for run in facts.runs:
        yield from _failure((f"block {run.block + 1}", run.arm, run.workload, run.load), run.failure)


def _failure(where: Sequence[str], failure: Failure | None) -> Iterator[FailureRead]:
    if failure is not None and failure.failure_class is not FailureClass.NOT_NEEDED:
        yield FailureRead(where="/".join(where), failure_class=failure.failure_class, message=failure.message)


def _links(digest: str) -> Links:
    api = f"/api/v1/experiments/{digest}"
    return Links(self=api, report=f"{api}/report", page=f"/experiments/{digest[:12]}")
