"""The tables of delivery: answers kept for requests that are sent again."""

from datetime import datetime

from sqlalchemy import LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, Json


class AnswerRow(Base):
    """What a request with an idempotency key was answered; without a status while it is under way."""

    __tablename__ = "kept_answer"

    who: Mapped[str] = mapped_column(primary_key=True)
    """Keys of one are no keys of another."""
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the whole request: method, address and body."""
    status: Mapped[int | None]
    headers: Mapped[Json] = mapped_column(default=dict)
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Null where the answer holds a secret: that is shown once and kept nowhere."""
    claimed_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
