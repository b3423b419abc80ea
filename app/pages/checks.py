"""The checks of preflight as the form shows them: by arm, what needs attention first, what passes folded away."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.preflight import Check, PreflightOutcome

WHOLE = "whole experiment"
ORDER = (
    PreflightOutcome.FAIL,
    PreflightOutcome.REFUSED_BY_POLICY,
    PreflightOutcome.NOT_CHECKABLE,
    PreflightOutcome.PASS,
)


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """The checks of one arm, or of the whole experiment."""

    title: str
    arm: str | None
    open: tuple[Check, ...]
    """Those that do not pass, the worst first."""
    passed: tuple[Check, ...]


def check_groups(checks: Sequence[Check]) -> list[CheckGroup]:
    """The whole experiment first, then the arms in the manifest's order."""
    arms = dict.fromkeys(check.arm for check in checks)
    return [_group(arm, [check for check in checks if check.arm == arm]) for arm in arms]


def tally(checks: Iterable[Check]) -> dict[PreflightOutcome, int]:
    """How many checks ended in each way, the worst first; ways that did not occur are left out."""
    ended = [check.outcome for check in checks]
    return {outcome: ended.count(outcome) for outcome in ORDER if outcome in ended}


def _group(arm: str | None, checks: Sequence[Check]) -> CheckGroup:
    ranked = sorted(checks, key=lambda check: ORDER.index(check.outcome))
    return CheckGroup(
        title=arm or WHOLE,
        arm=arm,
        open=tuple(c for c in ranked if c.outcome is not PreflightOutcome.PASS),
        passed=tuple(c for c in ranked if c.outcome is PreflightOutcome.PASS),
    )
