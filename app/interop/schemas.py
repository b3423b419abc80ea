"""What the API says of other tools' results."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from app.interop.imports.result import ImportedResult


class ImportRead(BaseModel):
    """A stored result of another tool."""

    model_config = ConfigDict(frozen=True)

    digest: str = Field(description="sha256 of the file's bytes.")
    experiment_id: str | None = Field(description="The experiment beside which it is shown; null for none.")
    created_at: datetime
    result: ImportedResult
