"""What servers were asked beside their runs, servers that only answer again, and scores of answers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

STATES = "state IN ({})"
BEFORE = ("STARTING", "WARMING", "MEASURING", "DRAINING", "SUCCEEDED", "FAILED", "CANCELED", "LOST")
AFTER = (*BEFORE[:3], "VERIFYING", *BEFORE[3:])


def upgrade() -> None:
    _session_states(AFTER)
    op.add_column("session", sa.Column("diagnosing", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("run", sa.Column("scorer", sa.Text()))
    op.add_column("run", sa.Column("scores", postgresql.JSONB(), nullable=False, server_default=sa.text("'{}'::jsonb")))
    op.alter_column("run", "scores", server_default=None)
    op.create_table(
        "verification",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("fk_verification_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_verification")),
    )


def downgrade() -> None:
    op.drop_table("verification")
    op.drop_column("run", "scores")
    op.drop_column("run", "scorer")
    op.drop_column("session", "diagnosing")
    op.execute("UPDATE session SET state = 'LOST' WHERE state = 'VERIFYING'")
    _session_states(BEFORE)


def _session_states(states: Sequence[str]) -> None:
    op.drop_constraint(op.f("ck_session_state"), "session")
    op.create_check_constraint(op.f("ck_session_state"), "session", STATES.format(", ".join(f"'{s}'" for s in states)))
