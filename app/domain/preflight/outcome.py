"""How one check of a manifest ended, and the words that go with it."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class PreflightOutcome(StrEnum):
    """How one check ended; only ``FAIL`` and ``REFUSED_BY_POLICY`` refuse the manifest."""

    PASS = "pass"  # noqa: S105  (an outcome, not a secret)
    FAIL = "fail"
    NOT_CHECKABLE = "not checkable"
    REFUSED_BY_POLICY = "refused by policy"

    @property
    def sign(self) -> str:
        """A mark beside the word, so that an outcome is never told by colour alone."""
        return _SIGNS[self]


_SIGNS = {
    PreflightOutcome.PASS: "✓",
    PreflightOutcome.FAIL: "✕",
    PreflightOutcome.NOT_CHECKABLE: "?",
    PreflightOutcome.REFUSED_BY_POLICY: "■",
}


class Check(BaseModel):
    """One named check. ``field`` is the manifest field it is about; ``remedy`` is empty where nothing is to be done."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arm: str | None
    field: str
    outcome: PreflightOutcome
    reason: str
    remedy: str = ""

    @property
    def refuses(self) -> bool:
        """Whether the manifest must not be run because of it."""
        return self.outcome in {PreflightOutcome.FAIL, PreflightOutcome.REFUSED_BY_POLICY}


@dataclass(frozen=True, slots=True)
class Topic:
    """What one check is about; ``arm`` is null where it is about the whole experiment."""

    name: str
    arm: str | None
    field: str

    def at(self, field: str) -> "Topic":
        """The same check, about another field of the manifest."""
        return Topic(self.name, self.arm, field)

    def passes(self, reason: str) -> Check:
        """The host can do it."""
        return self._check(PreflightOutcome.PASS, reason, "")

    def fails(self, reason: str, remedy: str) -> Check:
        """The engine would refuse it, do something else silently, or compare unlike things."""
        return self._check(PreflightOutcome.FAIL, reason, remedy)

    def cannot_say(self, reason: str, remedy: str = "") -> Check:
        """A fact is missing, or only the measurement can tell."""
        return self._check(PreflightOutcome.NOT_CHECKABLE, reason, remedy)

    def refuses(self, reason: str, remedy: str) -> Check:
        """The engine would do it and we do not let it."""
        return self._check(PreflightOutcome.REFUSED_BY_POLICY, reason, remedy)

    def _check(self, outcome: PreflightOutcome, reason: str, remedy: str) -> Check:
        return Check(name=self.name, arm=self.arm, field=self.field, outcome=outcome, reason=reason, remedy=remedy)
