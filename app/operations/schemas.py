"""What the operations API says. Durations are seconds by the database's clock, as of ``at``."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.domain.lifecycle import AcceleratorState, ExperimentState
from app.domain.vocabulary import FailureClass


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class FailureLevel(StrEnum):
    """What could not be completed."""

    BLOCK = "block"
    SESSION = "session"
    RUN = "run"


class QueueRead(_Read):
    """The blocks that wait for, or have, accelerators of one kind."""

    accelerator: str = Field(description="The kind.")
    queued: int
    delayed: int = Field(description="Of the queued ones, those that wait for a time after a failed attempt.")
    oldest_wait_s: float | None = Field(description="Since the first of the queued ones might have been claimed.")
    leased: int


class LeaseRead(_Read):
    """One block under way."""

    experiment_id: str
    experiment_name: str
    block: int
    owner: str
    worker: str
    accelerator: str
    accelerators: list[str] = Field(description="As host/name.")
    attempt: int
    attempts_max: int
    running_s: float
    expires_in_s: float = Field(description="Negative: it has expired, and nobody has taken it back yet.")
    cancel_requested: bool


class AcceleratorRead(_Read):
    """One place for an engine."""

    host: str
    name: str
    kind: str
    state: AcceleratorState
    reason: str | None = Field(description="Why it is quarantined.")
    since: datetime
    in_state_s: float
    seen_at: datetime
    silent_s: float
    stale: bool = Field(description="Its host is silent, so nothing will run there.")
    experiment_id: str | None
    block: int | None

    @property
    def address(self) -> str:
        """``host/name``."""
        return f"{self.host}/{self.name}"


class HostRead(_Read):
    """One host whose worker has published what it can run."""

    host: str
    seen_at: datetime
    silent_s: float
    stale: bool
    idle_because: str | None = Field(description="Why it takes no blocks, though it lives.")


class FailureCount(_Read):
    """Failures of one class at one level."""

    level: FailureLevel
    failure_class: FailureClass
    last_day: int
    in_all: int


class FailedRead(_Read):
    """One failure."""

    at: datetime
    level: FailureLevel
    failure_class: FailureClass
    message: str
    experiment_id: str
    experiment_name: str
    block: int
    arm: str | None = None
    workload: str | None = None
    load: str | None = None
    page: str = Field(description="The page that shows most of it.")

    @property
    def where(self) -> str:
        """``block 1, arm, workload at load``, as far down as it goes."""
        parts = [f"block {self.block + 1}", *([self.arm] if self.arm else [])]
        return ", ".join([*parts, *([f"{self.workload} at {self.load}"] if self.workload else [])])


class Retries(_Read):
    """Attempts at blocks that came to nothing and were, or will be, followed by another."""

    last_day: int = Field(description="Of blocks whose newest attempt began within a day.")
    in_all: int


class OwnerRead(_Read):
    """What one owner has used; who has used least goes first among equal priorities."""

    owner: str
    accelerator_s: float = Field(description="Accelerator-seconds of the last day.")
    queued: int
    leased: int


class Attention(_Read):
    """Something that will not get better by itself, and what to do about it."""

    what: str
    remedy: str
    page: str | None = Field(default=None, description="Where to look at it.")


class OperationsRead(_Read):
    """Everything an operator asks first."""

    at: datetime
    attention: list[Attention] = Field(default=[], description="What needs a person, worst first.")
    queues: list[QueueRead]
    leases: list[LeaseRead]
    accelerators: list[AcceleratorRead]
    hosts: list[HostRead]
    failures: list[FailureCount]
    newest_failures: list[FailedRead]
    retries: Retries
    owners: list[OwnerRead]
    experiments: dict[ExperimentState, int]
    database_bytes: int


class Reason(BaseModel):
    """Why an accelerator is taken out of use, or put back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
