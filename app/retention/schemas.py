"""What the API says of what was forgotten."""

from pydantic import BaseModel, ConfigDict, Field


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class DeletedRead(_Read):
    """An experiment that is gone."""

    id: str
    artifacts_removed: int = Field(description="Logs and raw files that nothing else refers to.")
    bytes_freed: int = Field(description="Of those files.")
    left_for_sweep: bool = Field(
        description="Somebody was reading, so its tables could not be dropped; `verdraft artifacts sweep` does it."
    )


class SweptRead(_Read):
    """What a sweep has taken away."""

    experiments_dropped: int
    artifacts_removed: int
    bytes_freed: int
    scratch_removed: int
