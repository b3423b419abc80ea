"""Imported figures beside our arms' of the nearest definition, for the eye alone: no ratio, no interval, no verdict.

Each imported benchmark stands with the load point of ours that offers most nearly the same.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.manifest import LoadPoint
from app.domain.report import ArmResult, Report
from app.interop.imports.result import Absent, ImportedPart, ImportedSummary, ImportedValue
from app.interop.schemas import ImportRead

QUANTILES: Final = ("p50", "p95", "p99")
MS_PER_UNIT: Final = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Column:
    """One latency of the table: its name, our field in ``ArmResult`` and the definitions that come near it."""

    name: str
    field: str
    nearest: frozenset[str]
    difference: str
    """What separates ours from theirs even then."""


_FROM_DUE: Final = "ours counts from when the request was due, theirs from when it was sent"
COLUMNS: Final = (
    Column("TTFT", "ttft_ms", frozenset({"ttft_from_sent_ns", "ttft_ns"}), _FROM_DUE),
    Column("TPOT", "tpot_ms", frozenset({"tpot_ns"}), "the same formula; theirs may be weighted by tokens"),
    Column("ITL by chunk", "itl_chunk_ms", frozenset({"itl_chunk_ns"}), "ours leaves out chunks without a token"),
    Column("E2E", "e2e_ms", frozenset({"e2e_from_sent_ns", "e2e_ns"}), f"{_FROM_DUE}; ours counts failures as slowest"),
)


@dataclass(frozen=True, slots=True)
class ForeignCell:
    """Their figure in one of our columns, in milliseconds; ``None`` where the tool has no such quantile."""

    name: str
    quantiles: tuple[float | None, ...]
    definition: str


@dataclass(frozen=True, slots=True)
class OwnRow:
    """One arm of ours at the nearest load."""

    result: ArmResult
    load: str


@dataclass(frozen=True, slots=True)
class Beside:
    """One imported benchmark with everything that a reader should see of it."""

    digest: str
    label: str
    tool: str
    model: str | None
    imported_at: datetime
    ignored_fields: int
    part: ImportedPart
    cells: tuple[ForeignCell | None, ...]
    """One for each of ``COLUMNS``."""
    ours: tuple[OwnRow, ...]
    summaries: tuple[tuple[str, ImportedSummary], ...]
    """By name, in one order, however the file had them."""
    values: tuple[tuple[str, ImportedValue], ...]

    @property
    def absent(self) -> tuple[Absent, ...]:
        """What the file does not tell."""
        return self.part.absent


def imports_context(imports: Sequence[ImportRead], report: Report | None) -> dict[str, object]:
    """What ``_imports.html`` shows beside ``report`` and ``experiment``."""
    return {"imported": imported_beside(imports, report), "columns": COLUMNS}


def imported_beside(imports: Sequence[ImportRead], report: Report | None) -> tuple[Beside, ...]:
    """Every benchmark of every imported file, in the order of the files."""
    return tuple(beside for stored in imports for beside in _beside(stored, report))


def _beside(stored: ImportRead, report: Report | None) -> Iterator[Beside]:
    result = stored.result
    for part in result.parts:
        yield Beside(
            digest=stored.digest,
            label=result.label,
            tool=" ".join(filter(None, (result.tool, result.tool_version))),
            model=result.model,
            imported_at=stored.created_at,
            ignored_fields=result.ignored_fields,
            part=part,
            cells=tuple(_cell(part, column) for column in COLUMNS),
            ours=tuple(_ours(part, report)) if report else (),
            summaries=tuple(sorted(part.summaries.items())),
            values=tuple(sorted(part.values.items())),
        )


def _cell(part: ImportedPart, column: Column) -> ForeignCell | None:
    near = [(name, s) for name, s in sorted(part.summaries.items()) if s.nearest in column.nearest]
    # Of two, the one that leaves nothing out: vLLM's E2E may be there with and without the client's queue.
    name, summary = max(
        near, key=lambda item: item[1].nearest == column.field.replace("_ms", "_ns"), default=("", None)
    )
    if summary is None or summary.unit not in MS_PER_UNIT:
        return None
    scale = MS_PER_UNIT[summary.unit]
    return ForeignCell(name, tuple(_scaled(summary.statistics, q, scale) for q in QUANTILES), summary.definition)


def _scaled(statistics: dict[str, float], quantile: str, scale: float) -> float | None:
    value = statistics.get(quantile, statistics.get("median") if quantile == "p50" else None)
    return None if value is None else value * scale


def _ours(part: ImportedPart, report: Report) -> Iterator[OwnRow]:
    if not report.manifest.loads:
        return
    load = min(report.manifest.loads, key=lambda point: _distance(part, point))
    order = [arm.name for arm in report.manifest.arms]
    found = [r for r in report.results if (r.load, r.stratum) == (load.name, ALL)]
    for result in sorted(found, key=lambda r: (r.workload, order.index(r.arm))):
        yield OwnRow(result, load.offered)


def _distance(part: ImportedPart, point: LoadPoint) -> float:
    """How far apart two offered loads are, in orders of magnitude; loads of different kinds never meet."""
    theirs = part.request_rate_rps if point.rate_rps is not None else part.concurrency
    ours = point.rate_rps if point.rate_rps is not None else point.clients
    return abs(math.log(ours / theirs)) if theirs and ours else math.inf
