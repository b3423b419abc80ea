"""Answers kept for requests that are sent again; webhooks and what was delivered to them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

NOW = sa.text("now()")
MOMENT = sa.DateTime(timezone=True)
EVENTS = "event IN ('experiment.finished', 'experiment.failed', 'experiment.canceled', 'ping')"
STATES = "state IN ('PENDING', 'DELIVERED', 'FAILED')"


def upgrade() -> None:
    op.create_table(
        "kept_answer",
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.BigInteger()),
        sa.Column("headers", postgresql.JSONB(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("claimed_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("who", "key", name=op.f("pk_kept_answer")),
    )
    op.create_index(op.f("ix_kept_answer_expires_at"), "kept_answer", ["expires_at"])
    _webhooks()
    _deliveries()


def downgrade() -> None:
    for table in ("webhook_delivery", "webhook", "kept_answer"):
        op.drop_table(table)


def _webhooks() -> None:
    op.create_table(
        "webhook",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False, server_default=sa.text("'default'")),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("disabled_at", MOMENT),
        sa.Column("disabled_because", sa.Text()),
        sa.ForeignKeyConstraint(["project"], ["project.name"], name=op.f("fk_webhook_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index(op.f("ix_webhook_project"), "webhook", ["project"])


def _deliveries() -> None:
    op.create_table(
        "webhook_delivery",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("experiment_id", sa.Text()),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("body", postgresql.JSONB()),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("due_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("last_status", sa.BigInteger()),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("finished_at", MOMENT),
        sa.CheckConstraint(EVENTS, name=op.f("ck_webhook_delivery_event")),
        sa.CheckConstraint(STATES, name=op.f("ck_webhook_delivery_state")),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_delivery_webhook_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiment.digest"],
            name=op.f("fk_webhook_delivery_experiment_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_delivery")),
        sa.UniqueConstraint(
            "webhook_id", "experiment_id", "event", name=op.f("uq_webhook_delivery_webhook_id_experiment_id_event")
        ),
    )
    op.create_index(op.f("ix_webhook_delivery_experiment_id"), "webhook_delivery", ["experiment_id"])
    op.create_index(
        "ix_webhook_delivery_due", "webhook_delivery", ["due_at"], postgresql_where=sa.text("state = 'PENDING'")
    )
