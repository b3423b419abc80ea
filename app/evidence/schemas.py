"""What the API says of traces, observations, series and workers."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.domain.observation import RequestObservation
from app.domain.trace import TraceHeader


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class TraceRead(_Read):
    """A stored trace."""

    digest: str = Field(description="sha256 of the canonical bytes; name the trace by it in a manifest.")
    name: str
    requests: int = Field(description="Lines after the header, warm-up included.")
    header: TraceHeader
    created_at: datetime


class ObservationPage(_Read):
    """Observations by request id. ``next_cursor`` is null on the last page."""

    items: list[RequestObservation]
    next_cursor: str | None


class CapabilityRead(_Read):
    """What one worker can run."""

    worker: str
    document: dict[str, JsonValue]
    seen_at: datetime


class ArtifactRead(_Read):
    """A stored file; ``path`` is relative to the artifact root."""

    kind: str
    sha256: str
    path: str
    bytes: int
