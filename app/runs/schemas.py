"""What the API says of sessions and runs."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from app.domain.control import Control
from app.domain.device import Device
from app.domain.evidence import CounterDeltas, Failure
from app.domain.lifecycle import RunState, SessionState
from app.domain.memory import MemoryBreakdown
from app.domain.run_summary import RunSummary
from app.domain.startup import CanaryFacts, ConfigSource, StartupWarning


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class SessionRead(_Read):
    """One fresh server of one arm in one block."""

    id: UUID
    experiment: str
    block: int
    arm: str
    position: int
    attempt: int
    state: SessionState
    failure: Failure | None
    startup_ns: int | None
    argv: list[str]
    log_sha256: str | None
    resolved_config: dict[str, str]
    memory: dict[str, str]
    memory_breakdown: MemoryBreakdown | None
    devices: list[Device]
    warnings: list[StartupWarning]
    canary: CanaryFacts | None
    flags_left_out: dict[str, str]
    config_source: ConfigSource | None
    diagnosing: bool
    started_at: datetime
    finished_at: datetime | None


class RunRead(_Read):
    """One replay of one workload at one load point. ``summary`` is for live pages; decisions use the report."""

    id: UUID
    session_id: UUID
    experiment: str
    block: int
    arm: str
    workload: str
    load: str
    attempt: int
    state: RunState
    failure: Failure | None
    counters: CounterDeltas | None
    summary: RunSummary | None
    controls: list[Control]
    unobservable: dict[str, str]
    started_at: datetime
    finished_at: datetime | None
