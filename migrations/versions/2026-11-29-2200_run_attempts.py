"""A run that its client voided is repeated: several attempts of one replay in a session."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

ONE_ATTEMPT = "uq_run_session_id_workload_load"
SEVERAL = "uq_run_session_id_workload_load_attempt"


def upgrade() -> None:
    op.add_column("run", sa.Column("attempt", sa.BigInteger(), server_default=sa.text("1"), nullable=False))
    op.alter_column("run", "attempt", server_default=None)
    op.drop_constraint(ONE_ATTEMPT, "run", type_="unique")
    op.create_unique_constraint(SEVERAL, "run", ["session_id", "workload", "load", "attempt"])


def downgrade() -> None:
    # Earlier attempts are void and were never counted; without their number only the last can stay.
    op.execute(
        "DELETE FROM run USING run later WHERE later.session_id = run.session_id AND later.workload = run.workload "
        "AND later.load = run.load AND later.attempt > run.attempt"
    )
    op.drop_constraint(SEVERAL, "run", type_="unique")
    op.create_unique_constraint(ONE_ATTEMPT, "run", ["session_id", "workload", "load"])
    op.drop_column("run", "attempt")
