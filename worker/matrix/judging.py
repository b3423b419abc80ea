"""Preflight's word beside the engine's deed: do they agree?

Preflight passes exactly what the engine serves as it was asked to. What is refused by policy is an outcome of its own.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from app.domain.errors import ManifestRefused
from app.domain.preflight import Check, PreflightOutcome
from app.domain.resolution import differences
from worker.matrix.outcome import Ending, EngineOutcome

REASONS_SHOWN = 2


class Said(StrEnum):
    """Preflight's answer to a whole case."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    POLICY = "refused by policy"


class Agreement(StrEnum):
    """``SHORT``: preflight falls short of the engine, in either direction. A policy neither agrees nor falls short."""

    AGREES = "agrees"
    POLICY = "by policy"
    SHORT = "SHORT"


class Statement(BaseModel):
    """What preflight says, and which checks make it say so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    said: Said
    reasons: tuple[str, ...] = ()
    not_checkable: tuple[str, ...] = ()


class Row(BaseModel):
    """One line of the matrix."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str
    method: str
    preflight: Statement
    engine: EngineOutcome | None
    """``None``: the engine was not started, since policy decides."""
    unlike: dict[str, tuple[str | None, str | None]] = {}
    """Setting → (target-only's, here), outside what speculation may change."""
    agreement: Agreement


def statement_of(checks: Iterable[Check], arm: str) -> Statement:
    """Preflight's answer for one arm: the checks of that arm and of the whole experiment."""
    relevant = [check for check in checks if check.arm in {arm, None}]
    refusing = [check for check in relevant if check.refuses]
    policy = [check for check in refusing if check.outcome is PreflightOutcome.REFUSED_BY_POLICY]
    said = Said.POLICY if policy else Said.FAIL if refusing else Said.PASS
    return Statement(
        said=said,
        reasons=tuple(f"{check.name}: {check.reason}" for check in policy or refusing),
        not_checkable=tuple(c.name for c in relevant if c.outcome is PreflightOutcome.NOT_CHECKABLE),
    )


def statement_of_refusal(refused: ManifestRefused, *, by_policy: bool) -> Statement:
    """Where the manifest itself cannot be written."""
    reasons = tuple(problem.message for problem in refused.problems)
    return Statement(said=Said.POLICY if by_policy else Said.FAIL, reasons=reasons)


def judge(
    case: str, method: str, statement: Statement, engine: EngineOutcome | None, baseline: EngineOutcome | None
) -> Row:
    """A row. ``baseline`` is target-only on the same target, for the settings that may not differ from it."""
    unlike = differences(baseline.resolved, engine.resolved) if engine and baseline and engine.resolved else {}
    return Row(
        case=case,
        method=method,
        preflight=statement,
        engine=None if engine is None else engine.model_copy(update={"resolved": {}}),
        unlike=unlike,
        agreement=_agreement(statement, engine, unlike),
    )


def serves_as_asked(engine: EngineOutcome, unlike: dict[str, tuple[str | None, str | None]]) -> bool:
    """Served, with no warning that fails preflight, nothing resolved otherwise, and nothing else changed."""
    return engine.ending is Ending.SERVED and not (engine.failing_warnings or engine.problems or unlike)


def exit_code(rows: Sequence[Row]) -> int:
    """1 if a row falls short."""
    return int(any(row.agreement is Agreement.SHORT for row in rows))


def _agreement(
    statement: Statement, engine: EngineOutcome | None, unlike: dict[str, tuple[str | None, str | None]]
) -> Agreement:
    if statement.said is Said.POLICY:
        return Agreement.POLICY
    if engine is None:
        return Agreement.SHORT
    passes = statement.said is Said.PASS
    return Agreement.AGREES if passes == serves_as_asked(engine, unlike) else Agreement.SHORT
