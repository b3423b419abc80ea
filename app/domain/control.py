"""A control: one named thing that must hold before speed may be spoken of, with its figure beside its threshold."""

from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class ControlOutcome(StrEnum):
    """``FAIL`` makes what depends on it INVALID; ``WARN`` is shown and decides nothing."""

    PASS = "pass"  # noqa: S105  (not a password)
    WARN = "warn"
    FAIL = "fail"
    NOT_CHECKABLE = "not checkable"


class Finding(NamedTuple):
    """A control before it is said of which run it is."""

    name: str
    outcome: ControlOutcome
    figure: float | None
    threshold: float | None
    unit: str
    words: str
    """What is wrong; empty where nothing is."""


class Control(BaseModel):
    """A finding in its place. ``words`` say what is wrong, or why it cannot be told; empty where nothing is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    block: int | None
    """``None``, as for arm, workload and load: of all of them together."""
    arm: str | None
    workload: str | None
    load: str | None
    outcome: ControlOutcome
    figure: float | None
    threshold: float | None
    unit: str
    words: str
