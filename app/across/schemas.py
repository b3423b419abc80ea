"""What the API says of several experiments side by side."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.domain.lifecycle import ExperimentState
from app.domain.statistics import Estimate
from app.domain.vocabulary import VerdictWord

AT_LEAST, AT_MOST = 2, 6
Reference = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12,64}$")]
References = Annotated[
    list[Reference],
    Field(min_length=AT_LEAST, max_length=AT_MOST, description="Digests of experiments, or their first 12 digits."),
]


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class Column(_Read):
    """One experiment."""

    id: str
    name: str
    state: ExperimentState
    blocks_complete: int
    blocks_planned: int
    interim: bool = Field(description="Blocks are missing: nothing is decided.")


class PinRow(_Read):
    """One thing that each experiment pins; `null` where it does not state it."""

    what: str
    values: list[str | None]
    differs: bool


class Cell(_Read):
    """What one experiment says of a condition, from its own paired blocks."""

    word: VerdictWord
    ratio: Estimate | None
    simultaneous_low: float | None
    simultaneous_high: float | None
    metric: str
    exploratory: bool
    baseline_e2e_p50_ms: float | None = Field(description="Target-only's own, of that experiment.")
    unlike: list[str] = Field(description="What differs from the first experiment that has this condition.")


class ConditionRow(_Read):
    """One arm on one workload at one load, by name; a cell is `null` where an experiment has no such condition."""

    arm: str
    workload: str
    load: str
    cells: list[Cell | None]


class Across(_Read):
    """Experiments side by side. Nothing is computed between them: no ratio across columns was controlled."""

    experiments: list[Column]
    pins: list[PinRow] = Field(description="Those that differ first.")
    warnings: list[str] = Field(description="Why numbers in different columns may not be comparable.")
    conditions: list[ConditionRow]
