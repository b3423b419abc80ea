"""What the API says of an experiment."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from app.domain.lifecycle import ExperimentState, SessionState
from app.domain.vocabulary import FailureClass, Name

OWNER: Final = "local"
PRIORITY: Final = 0

Owner = Annotated[Name, Field(description="Who gets a fair share of the accelerators; no part of the manifest.")]
Priority = Annotated[int, Field(ge=-10, le=10, description="Which blocks go first: the higher, the earlier.")]


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class CurrentRead(_Read):
    """What is being measured now; ``workload`` and ``load`` are null between runs."""

    block: int
    arm: str
    workload: str | None
    load: str | None
    session_state: SessionState


class FailureRead(_Read):
    """One failure that is part of the evidence; ``where`` is ``block 0/arm/workload/load`` as far as it goes."""

    where: str
    failure_class: FailureClass
    message: str


class Links(_Read):
    """Where to go from here."""

    self: str
    report: str
    page: str


class ExperimentRead(_Read):
    """An experiment and how far it has come."""

    id: str = Field(description="The manifest's sha256.")
    name: str
    state: ExperimentState
    version: int = Field(description="Grows with every visible change.")
    created_at: datetime
    finished_at: datetime | None
    owner: str
    priority: int
    cancel_requested: bool = Field(description="A stop was asked for, and a block has yet to end.")
    waits_because: str | None = Field(description="Why no block of it runs although some are queued; else null.")
    blocks_planned: int
    blocks_complete: int
    sessions_planned: int
    sessions_done: int
    runs_planned: int
    runs_done: int
    current: CurrentRead | None
    seconds_left: float | None = Field(description="From measured sessions; null until one is known.")
    failures: list[FailureRead]
    links: Links


class ExperimentPage(_Read):
    """Experiments, newest first. ``next_cursor`` is null on the last page."""

    items: list[ExperimentRead]
    next_cursor: str | None
