"""The terms of the reproducibility checklist: a check, an item of several, and what both are made from.

A check that could not be made is ``NOT_MET``: nothing is taken as given because nobody looked.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.domain.arm_memory import ArmMemory
from app.domain.condition import Condition
from app.domain.control import ControlOutcome
from app.domain.correctness import Correctness
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.gates import ControlSummary
from app.domain.lifecycle import SessionState
from app.domain.pairing import CompleteBlocks
from app.domain.reconciliation import Reconciliation
from app.domain.results import ArmResult
from app.domain.sampling_equality import SampledEquality
from app.domain.vocabulary import Saturation

NAMED_MAX: Final = 4
"""So many are named in a sentence; the rest are counted."""


DIGITS: Final = 12
"""Of a digest, as in page addresses; the whole of it is among the pins."""


class ItemState(StrEnum):
    """What became of a check."""

    MET = "met"
    NOT_MET = "not met"
    NOT_APPLICABLE = "not applicable"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Frozen):
    """One thing that was looked at."""

    what: str
    state: ItemState
    evidence: str
    """What was seen, with its figures."""
    remedy: str | None = None
    """What to do, where it is not met."""


class ChecklistItem(_Frozen):
    """One item: met where each of its checks is met or not applicable."""

    name: str
    """Stable, for addresses and gates."""
    title: str
    state: ItemState
    checks: tuple[Check, ...]


class Facts(NamedTuple):
    """What the checks read, all of it over complete blocks."""

    evidence: ExperimentEvidence
    blocks: CompleteBlocks
    controls: tuple[ControlSummary, ...]
    results: Sequence[ArmResult]
    saturation: Mapping[Condition, Saturation]
    correctness: Sequence[Correctness]
    sampling: Sequence[SampledEquality]
    memory: tuple[ArmMemory, ...]
    reconciliations: tuple[Reconciliation, ...]

    @property
    def servers(self) -> tuple[SessionEvidence, ...]:
        """Those of complete blocks that were not lost."""
        here = (s for s in self.evidence.sessions if s.block in self.blocks.indices)
        return tuple(s for s in here if s.state is not SessionState.LOST)


def item(name: str, title: str, *checks: Check) -> ChecklistItem:
    """The item with the state of its checks together."""
    states = {check.state for check in checks}
    whole = next((s for s in (ItemState.NOT_MET, ItemState.MET) if s in states), ItemState.NOT_APPLICABLE)
    return ChecklistItem(name=name, title=title, state=whole, checks=checks)


def check(what: str, holds: object, evidence: str, remedy: str) -> Check:
    """``remedy`` is told only where it does not hold."""
    if holds:
        return Check(what=what, state=ItemState.MET, evidence=evidence)
    return Check(what=what, state=ItemState.NOT_MET, evidence=evidence, remedy=remedy)


def idle(what: str, why: str) -> Check:
    """A check that has nothing to look at here."""
    return Check(what=what, state=ItemState.NOT_APPLICABLE, evidence=why)


def of_controls(facts: Facts, what: str, names: Sequence[str], remedy: str) -> Check:
    """Met where each of these controls passed in every run; a warning and a control that could not be made are not."""
    found = [summary for name in names for summary in facts.controls if summary.name == name]
    if not found:
        return check(what, holds=False, evidence=f"no compared run was held to: {', '.join(names)}", remedy=remedy)
    good = all(set(summary.outcomes) == {str(ControlOutcome.PASS)} for summary in found)
    return check(what, good, "; ".join(map(_told, found)), remedy)


def named(names: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _told(summary: ControlSummary) -> str:
    passed, runs = summary.outcomes.get(str(ControlOutcome.PASS), 0), sum(summary.outcomes.values())
    if passed == runs:
        return f"{summary.name}: {passed} of {runs} pass"
    others = ", ".join(f"{n} {word}" for word, n in summary.outcomes.items() if word != ControlOutcome.PASS)
    return f"{summary.name}: {passed} of {runs} pass, {others} ({summary.worst.words})"
