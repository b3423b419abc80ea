"""Accelerators as rows that blocks lease, queues by their kind, owners and priorities, resumed sessions."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

INDEX = "ix_block_state_accelerator"
OLD_INDEX = "ix_block_state_created_at_experiment_id_index"
RUN_STATES = ("MEASURING", "SUCCEEDED", "FAILED", "CANCELED")
SESSION_STATES = ("STARTING", "WARMING", "MEASURING", "DRAINING", "SUCCEEDED", "FAILED", "CANCELED")
FAILING = ("block", "session", "run")
NAMES = sa.ARRAY(sa.Text())
NONE = sa.text("'{}'")


def upgrade() -> None:
    op.add_column("experiment", sa.Column("owner", sa.Text(), nullable=False, server_default="local"))
    op.add_column("experiment", sa.Column("priority", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("block", sa.Column("accelerator", sa.Text(), nullable=False, server_default=""))
    op.add_column("block", sa.Column("accelerator_count", sa.BigInteger(), nullable=False, server_default="1"))
    op.add_column("block", sa.Column("not_before", sa.DateTime(timezone=True)))
    op.add_column("block", sa.Column("accelerators", NAMES, nullable=False, server_default=NONE))
    op.execute(
        "UPDATE block SET accelerator = manifest -> 'hardware' ->> 'accelerator',"
        " accelerator_count = least((manifest -> 'serving' ->> 'tensor_parallel_size')::bigint,"
        " (manifest -> 'hardware' ->> 'count')::bigint)"
        " FROM experiment WHERE experiment.digest = block.experiment_id"
    )
    op.alter_column("block", "accelerator", server_default=None)
    op.add_column("session", sa.Column("adopted_fence", sa.BigInteger()))
    op.add_column("session", sa.Column("accelerators", NAMES, nullable=False, server_default=NONE))
    op.add_column("worker_capability", sa.Column("idle_because", sa.Text()))
    op.drop_index(op.f(OLD_INDEX), "block")
    op.create_index(op.f(INDEX), "block", ["state", "accelerator"])
    _allow("run", (*RUN_STATES, "LOST"))
    _allow("session", (*SESSION_STATES, "LOST"))
    op.create_table(
        "accelerator",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("block_id", sa.Uuid()),
        sa.Column("reason", sa.Text()),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("host", "name", name=op.f("pk_accelerator")),
        sa.ForeignKeyConstraint(["block_id"], ["block.id"], name=op.f("fk_accelerator_block_id"), ondelete="SET NULL"),
        sa.CheckConstraint("state IN ('FREE', 'LEASED', 'QUARANTINED')", name=op.f("ck_accelerator_state")),
    )
    op.create_index(op.f("ix_accelerator_block_id"), "accelerator", ["block_id"])
    for table in FAILING:
        failed = sa.text("failure IS NOT NULL")
        op.create_index(op.f(f"ix_{table}_failures"), table, ["finished_at"], postgresql_where=failed)


def downgrade() -> None:
    for table in FAILING:
        op.drop_index(op.f(f"ix_{table}_failures"), table)
    op.drop_table("accelerator")
    for table, allowed in (("run", RUN_STATES), ("session", SESSION_STATES)):
        rows = sa.table(table, sa.column("state"))
        op.execute(rows.update().where(rows.c.state == "LOST").values(state="FAILED"))
        _allow(table, allowed)
    op.drop_index(op.f(INDEX), "block")
    op.create_index(op.f(OLD_INDEX), "block", ["state", "created_at", "experiment_id", "index"])
    for table, columns in {
        "worker_capability": ("idle_because",),
        "session": ("accelerators", "adopted_fence"),
        "block": ("accelerators", "not_before", "accelerator_count", "accelerator"),
        "experiment": ("priority", "owner"),
    }.items():
        for column in columns:
            op.drop_column(table, column)


def _allow(table: str, states: Sequence[str]) -> None:
    check = op.f(f"ck_{table}_state")
    op.drop_constraint(check, table, type_="check")
    op.create_check_constraint(check, table, f"state IN ({', '.join(map(repr, states))})")
