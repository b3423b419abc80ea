"""The tables of webhooks: who is told, and each delivery with what became of it."""

from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, Index, LargeBinary, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.acting import project_of_actor
from app.db.base import Base, Json, word
from app.domain.webhook import DeliveryState, Event


class WebhookRow(Base):
    """An address that is told of ended experiments of its project."""

    __tablename__ = "webhook"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    project: Mapped[str] = mapped_column(
        ForeignKey("project.name"), index=True, default=project_of_actor, server_default="default"
    )
    url: Mapped[str]
    secret: Mapped[bytes] = mapped_column(LargeBinary)
    """As it was shown: a signature needs the secret itself."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    disabled_at: Mapped[datetime | None]
    disabled_because: Mapped[str | None]


class DeliveryRow(Base):
    """One message to one webhook; its id stays the same however often it is sent."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        UniqueConstraint("webhook_id", "experiment_id", "event"),
        Index("ix_webhook_delivery_due", "due_at", postgresql_where=text("state = 'PENDING'")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    webhook_id: Mapped[UUID] = mapped_column(ForeignKey(WebhookRow.id, ondelete="CASCADE"))
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiment.digest", ondelete="CASCADE"), index=True)
    """Null for a ping."""
    event: Mapped[Event] = mapped_column(word(Event, "event"))
    body: Mapped[Json | None]
    """What is sent; null until it is first due."""
    state: Mapped[DeliveryState] = mapped_column(word(DeliveryState, "state"))
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_status: Mapped[int | None]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
