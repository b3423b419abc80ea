"""Experiments are found by tags and verdicts, and put away; nothing of it is part of a manifest."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

INDEX = "ix_experiment_tags"


def upgrade() -> None:
    tags = sa.Column("tags", sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'"))
    op.add_column("experiment", tags)
    op.add_column("experiment", sa.Column("archived", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index(op.f(INDEX), "experiment", ["tags"], postgresql_using="gin")
    op.add_column("report", sa.Column("glance", postgresql.JSONB()))


def downgrade() -> None:
    op.drop_column("report", "glance")
    op.drop_index(op.f(INDEX), "experiment")
    op.drop_column("experiment", "archived")
    op.drop_column("experiment", "tags")
