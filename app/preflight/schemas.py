"""What the API says of a manifest before it is run."""

from pydantic import BaseModel, ConfigDict, Field

from app.domain.estimate import CostEstimate
from app.domain.preflight import Check


class PreflightRead(BaseModel):
    """Every check that applies, and what the experiment would cost."""

    model_config = ConfigDict(frozen=True)

    digest: str = Field(description="The manifest's sha256; nothing is registered.")
    refused: bool = Field(description="Whether any check fails or is refused by policy.")
    host: str | None = Field(description="The worker whose host was looked at; null where none has the runtime.")
    checks: list[Check]
    estimate: CostEstimate
