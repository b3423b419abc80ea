"""The index, a bundle's first member: the digest of every other member, and of what each run has in them.

Its own digest is the bundle's root: who knows the root knows that nothing was changed.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.evidence import RunEvidence
from app.domain.vocabulary import Sha256

BUNDLE_FORMAT: Final = "verdraft/bundle/v1"
INDEX: Final = "index.json"
MANIFEST: Final = "manifest.json"
REPORT: Final = "report.json"
SESSIONS: Final = "sessions.jsonl"
RUNS: Final = "runs.jsonl"
ARTIFACTS: Final = "artifacts.jsonl"
OBSERVATIONS: Final = "observations.parquet"
SERIES: Final = "series.parquet"
REQUIRED: Final = (MANIFEST, REPORT, SESSIONS, RUNS, ARTIFACTS, OBSERVATIONS, SERIES)

INDEX_BYTES_MAX: Final = 256 << 20
MEMBERS_MAX: Final = 200_000
_PATH: Final = (
    r"^(?:(?:manifest|report)\.json|(?:sessions|runs|artifacts)\.jsonl|(?:observations|series)\.parquet"
    r"|traces/[0-9a-f]{64}\.jsonl|artifacts/[0-9a-f]{64})$"
)


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Member(_Frozen):
    """One file of the bundle."""

    path: Annotated[str, Field(pattern=_PATH)]
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0)]


class RunIndex(_Frozen):
    """What one run has in the tables; the runs are in the order of ``runs.jsonl``."""

    run: str
    """``block 1/target-only/tasks/low/attempt 1``, for a reader; blocks count from 1."""
    observations: Annotated[int, Field(ge=0)]
    observations_sha256: Sha256
    """Over the values, however the table is encoded; docs/bundle.md has the rule."""
    series: Annotated[int, Field(ge=0)]
    series_sha256: Sha256


class BundleIndex(_Frozen):
    """The first member of a bundle."""

    format: Literal["verdraft/bundle/v1"] = BUNDLE_FORMAT
    experiment: Sha256
    analysis_version: str
    members: Annotated[tuple[Member, ...], Field(max_length=MEMBERS_MAX)]
    runs: tuple[RunIndex, ...]


class ArtifactLine(_Frozen):
    """A file that a session or run refers to by digest, by their places in ``sessions.jsonl`` and ``runs.jsonl``."""

    kind: str
    sha256: Sha256
    bytes: int
    session: int | None = None
    run: int | None = None
    included: bool
    """Whether it is in the bundle as ``artifacts/<sha256>``."""


def trace_path(digest: str) -> str:
    """Where a workload's trace is."""
    return f"traces/{digest}.jsonl"


def artifact_path(digest: str) -> str:
    """Where a log or a raw file is."""
    return f"artifacts/{digest}"


def name_of(run: RunEvidence) -> str:
    """A run in words."""
    return f"block {run.block + 1}/{run.arm}/{run.workload}/{run.load}/attempt {run.attempt}"
