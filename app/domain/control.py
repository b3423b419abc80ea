"""A control: one named thing that must hold before speed may be spoken of, with its figure beside its threshold."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class ControlOutcome(StrEnum):
    """``FAIL`` makes what depends on it INVALID; ``WARN`` is shown and decides nothing."""

    PASS = "pass"  # noqa: S105  (not a password)
    WARN = "warn"
    FAIL = "fail"
    NOT_CHECKABLE = "not checkable"


class Control(BaseModel):
    """``words`` state what was found, for a reader who sees nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    block: int
    arm: str
    workload: str
    load: str
    outcome: ControlOutcome
    figure: float | None
    threshold: float | None
    unit: str
    words: str
