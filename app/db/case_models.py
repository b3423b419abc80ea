"""The tables by which single requests are found among millions; made from observations, and made anew at need."""

from uuid import UUID

from sqlalchemy import Double, ForeignKey, Index, LargeBinary, SmallInteger, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, Json

_ORDERS = (
    "ttft_ns",
    "tpot_ns",
    "e2e_ns",
    "lateness_ns",
    "ratio",
    "acceptance",
    "output_tokens",
    "prompt_tokens",
    "request_id",
)


class RequestCaseRow(Base):
    """What cases are found by: a narrow row beside each observation of a complete block, made from it and never edited.

    Without the arrays, so that a million of them can be gone through while a reader waits.
    """

    __tablename__ = "request_case"
    __table_args__ = (
        *(Index(None, "condition", key, "number") for key in _ORDERS),
        Index(None, "condition", "head", "number"),
        Index("ix_request_case_failures", "condition", "outcome", "number", postgresql_where=text("outcome <> 0")),
        Index("ix_request_case_differences", "condition", "number", postgresql_where=text("differs")),
        {"postgresql_partition_by": "LIST (stem)"},
    )

    stem: Mapped[UUID] = mapped_column(primary_key=True)
    """The first half of the experiment's digest: its text would double the row."""
    number: Mapped[int] = mapped_column(primary_key=True)
    """By block and then by condition and due time; the order of equals."""
    lateness_ns: Mapped[int | None]
    ttft_ns: Mapped[int | None]
    tpot_ns: Mapped[float | None] = mapped_column(Double)
    e2e_ns: Mapped[int | None]
    ratio: Mapped[float | None] = mapped_column(Double)
    acceptance: Mapped[float | None] = mapped_column(Double)
    score: Mapped[float | None] = mapped_column(Double)
    output_tokens: Mapped[int]
    prompt_tokens: Mapped[int | None]
    run_id: Mapped[UUID]
    condition: Mapped[int] = mapped_column(SmallInteger)
    """Its place among the manifest's conditions."""
    block: Mapped[int] = mapped_column(SmallInteger)
    attempt: Mapped[int] = mapped_column(SmallInteger)
    outcome: Mapped[int] = mapped_column(SmallInteger)
    """Its place among the outcomes."""
    counted: Mapped[bool]
    differs: Mapped[bool | None]
    request_id: Mapped[str] = mapped_column(Text(collation="C"))
    strata: Mapped[list[str]]
    head: Mapped[bytes] = mapped_column(LargeBinary)


class CaseIndexRow(Base):
    """A complete block whose cases are there, and how many of each condition: counted ones and others."""

    __tablename__ = "case_index"

    experiment: Mapped[str] = mapped_column(ForeignKey("experiment.digest", ondelete="CASCADE"), primary_key=True)
    block: Mapped[int] = mapped_column(primary_key=True)
    fence: Mapped[int]
    version: Mapped[int]
    cases: Mapped[Json]
