"""Accepted drafts, complete outputs and correct answers of each arm side by side: three things, never one number."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.correct_answers import CorrectAnswers
from app.domain.degenerate import DegenerateAnswers
from app.domain.report import ArmResult, Report


@dataclass(frozen=True, slots=True)
class Delivered:
    """One arm on one workload over all loads and blocks."""

    arm: str
    offered: int
    complete: int
    drafted: int | None
    accepted: int | None
    """Draft tokens; ``None`` where the engine does not tell them."""
    correct: CorrectAnswers | None
    """``None`` where the workload declares no scorer."""
    degenerate: DegenerateAnswers | None
    """``None`` of target-only, which is the measure."""


@dataclass(frozen=True, slots=True)
class DeliveredGroup:
    """The arms of one workload; ``strata`` are the exploratory rows about correct answers."""

    workload: str
    rows: tuple[Delivered, ...]
    strata: tuple[CorrectAnswers, ...]


def delivered(report: Report) -> list[DeliveredGroup]:
    """By workload, in the manifest's order."""
    return [
        DeliveredGroup(
            workload,
            tuple(_row(report, arm.name, workload) for arm in report.manifest.arms),
            tuple(row for row in report.correct_answers if row.workload == workload and row.stratum != "all"),
        )
        for workload in report.strata
        if report.results
    ]


def _row(report: Report, arm: str, workload: str) -> Delivered:
    here = [r for r in report.results if (r.arm, r.workload, r.stratum) == (arm, workload, "all")]
    correct = (r for r in report.correct_answers if (r.arm, r.workload, r.stratum) == (arm, workload, "all"))
    degenerate = (r for r in report.degenerate if (r.arm, r.workload) == (arm, workload))
    return Delivered(
        arm,
        offered=sum(r.offered for r in here),
        complete=sum(r.success for r in here),
        drafted=_sum([r.tokens.drafted for r in here], here),
        accepted=_sum([r.tokens.accepted for r in here], here),
        correct=next(correct, None),
        degenerate=next(degenerate, None),
    )


def _sum(counts: Sequence[int | None], here: Sequence[ArmResult]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if here and len(known) == len(counts) else None
