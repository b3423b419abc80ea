"""What the API says of an experiment."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from app.domain.lifecycle import ExperimentState, SessionState
from app.domain.vocabulary import FailureClass, Name, VerdictWord
from app.experiments.listing.search import Tags

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


class ArmWord(_Read):
    """How often an arm got a verdict, over the workloads and loads."""

    arm: str
    word: VerdictWord
    count: int


class Shelving(_Read):
    """What may be changed of an experiment at any time: how it is found. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tags: Tags | None = None
    archived: bool | None = Field(default=None, description="Hidden from lists; nothing is stopped or deleted.")


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
    tags: list[str] = Field(description="To find it by; no part of the manifest.")
    archived: bool = Field(description="Left out of lists unless asked for; it runs on and keeps its evidence.")
    verdicts: list[ArmWord] | None = Field(
        description="Of the report once it is over; null until the report was asked for, or where there is none."
    )
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
    seconds_left_low: float | None = Field(description="If each session is as fast as its arm's fastest so far.")
    seconds_left_high: float | None = Field(description="If each is as slow as its arm's slowest; null below two.")
    failures: list[FailureRead]
    links: Links


class ExperimentPage(_Read):
    """A page of experiments. A cursor is null where nothing follows, or precedes."""

    items: list[ExperimentRead]
    next_cursor: str | None
    previous_cursor: str | None
    total: int = Field(description="How many there are on all pages.")
    unweighed: int = Field(
        description="How many of them are over, but left out of a search by verdict until their report is asked for."
    )
