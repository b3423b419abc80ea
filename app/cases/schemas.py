"""What the API says of cases."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.domain.vocabulary import Outcome


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class CaseRead(_Read):
    """One request under one arm in one block. Latencies count from the due time; ``null`` where there is none."""

    run_id: UUID
    block: int = Field(description="From 1, as pages say it.")
    arm: str
    workload: str
    load: str
    attempt: int
    counted: bool = Field(description="Whether its run is compared: it succeeded, in a complete block.")
    request_id: str
    strata: list[str]
    outcome: Outcome
    lateness_ns: int | None
    ttft_ns: int | None
    tpot_ns: float | None
    e2e_ns: int | None
    prompt_tokens: int | None
    output_tokens: int
    acceptance: float | None = Field(description="Accepted of drafted tokens.")
    ratio: float | None = Field(
        description="E2E over target-only's of the same request in the same block: above 1 is slower. Of one request, "
        "not controlled for order or load: it finds cases, it decides nothing."
    )
    differs: bool | None = Field(description="Whether the answer is not target-only's; null where one is missing.")
    score: float | None
    correct: bool | None
    text: str = Field(description="How the answer begins.")


class CasePage(_Read):
    """Cases of complete blocks. ``next_cursor`` is null on the last page."""

    items: list[CaseRead]
    next_cursor: str | None
    total: int = Field(description="How many match; where `total_is_bound`, more than this.")
    total_is_bound: bool
    blocks: int = Field(description="Complete blocks that cases have been taken from.")
    blocks_complete: int = Field(description="More than `blocks` while cases are being taken from the rest.")
