"""A result that another tool measured: every number with its unit, its tool's definition and where it stood.

Nothing of it was controlled here, so nothing of it enters a report, an interval or a verdict.
"""

from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.errors import DomainError
from app.domain.vocabulary import Sha256

FORMAT: Final = "verdraft/imported-result/v0"
NOT_CONTROLLED: Final = "not controlled by Verdraft"
LABEL_MAX: Final = 120


class ImportRefused(DomainError):
    """The file is not a result that can be read here, or contradicts its own format."""

    title = "The result file was refused"


class Tool(StrEnum):
    """Whose result it is."""

    VLLM = "vllm bench serve"
    GUIDELLM = "guidellm"
    AIPERF = "aiperf"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Measured(_Frozen):
    """What every foreign number carries."""

    unit: str
    definition: str
    """The tool's own, in words."""
    field: str
    """Where it stands in the file."""
    status: Literal["not controlled by Verdraft"] = NOT_CONTROLLED


class ImportedValue(_Measured):
    """One number."""

    value: float


class ImportedSummary(_Measured):
    """Statistics of one quantity by the tool's names for them, such as ``mean`` and ``p99``."""

    statistics: dict[str, float] = Field(min_length=1)
    samples: int | None = None
    nearest: str | None = None
    """Our function of the nearest definition (``docs/metrics.md``); ``None`` where we have none."""


class ImportedAcceptance(_Measured):
    """What was drafted and accepted, as far as the file tells; the rate is a share of drafted tokens."""

    rate: float | None = None
    mean_length_incl: float | None = None
    """1 + accepted / drafts."""
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    by_position: tuple[float, ...] = ()
    """Accepted at each position / drafts."""


class Absent(_Frozen):
    """What a reader may look for and not find, and why."""

    name: str
    why: str


class ImportedTime(_Frozen):
    """A time as the file has it, in ISO 8601."""

    iso: str
    meaning: str


class ImportedPart(_Frozen):
    """One benchmark of the file: one offered load."""

    name: str
    load: str
    """In words, as the tool states it."""
    request_rate_rps: float | None = None
    concurrency: int | None = None
    time: ImportedTime | None = None
    values: dict[str, ImportedValue]
    """``offered``, ``completed``, ``failed``, ``duration``, ``request_throughput``, ``output_throughput``, …"""
    summaries: dict[str, ImportedSummary]
    """``ttft``, ``tpot``, ``itl``, ``e2e`` and what else the tool has."""
    acceptance: ImportedAcceptance | None = None
    absent: tuple[Absent, ...] = ()


class ImportedResult(_Frozen):
    """One file of another tool."""

    format: Literal["verdraft/imported-result/v0"] = FORMAT
    status: Literal["not controlled by Verdraft"] = NOT_CONTROLLED
    tool: Tool
    tool_version: str | None
    schema_version: str | None
    """Of the file's format, where it states one."""
    label: str = Field(min_length=1, max_length=LABEL_MAX)
    model: str | None
    source_sha256: Sha256
    source_bytes: int
    ignored_fields: int
    """Members of the file that are not read here."""
    parts: tuple[ImportedPart, ...] = Field(min_length=1)
