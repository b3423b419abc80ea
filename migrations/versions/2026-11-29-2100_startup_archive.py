"""What a server said while starting, what a chat answer holds beside its text, and a trace's summary."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

EMPTY_LIST, EMPTY_OBJECT, NO_BYTES, NO_NUMBERS = "'[]'", "'{}'", "''", "'{}'"
CONFIG_SOURCE = sa.Enum(
    "server_info", "log", name="config_source", native_enum=False, create_constraint=True, length=32
)


def upgrade() -> None:
    op.add_column("trace", sa.Column("summary", postgresql.JSONB(), nullable=True))
    _add_filled("session", sa.Column("warnings", postgresql.JSONB(), nullable=False), EMPTY_LIST)
    op.add_column("session", sa.Column("canary", postgresql.JSONB(), nullable=True))
    _add_filled("session", sa.Column("flags_left_out", postgresql.JSONB(), nullable=False), EMPTY_OBJECT)
    op.add_column("session", sa.Column("config_source", CONFIG_SOURCE, nullable=True))
    _add_filled("observation", sa.Column("reasoning", sa.LargeBinary(), nullable=False), NO_BYTES)
    _add_filled("observation", sa.Column("tool_calls", sa.LargeBinary(), nullable=False), NO_BYTES)
    _add_filled("observation", sa.Column("logprobs", postgresql.ARRAY(sa.Double()), nullable=False), NO_NUMBERS)


def downgrade() -> None:
    for name in ("logprobs", "tool_calls", "reasoning"):
        op.drop_column("observation", name)
    for name in ("config_source", "flags_left_out", "canary", "warnings"):
        op.drop_column("session", name)
    op.drop_column("trace", "summary")


def _add_filled(table: str, column: sa.Column[object], value: str) -> None:
    """Add a column that may not be null: existing rows get ``value``, new ones must state theirs."""
    column.server_default = sa.DefaultClause(sa.text(value))
    op.add_column(table, column)
    op.alter_column(table, column.name, server_default=None)
