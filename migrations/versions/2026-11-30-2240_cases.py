"""Cases: a narrow row beside each observation of a complete block, filled by the service when somebody looks."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

ORDERS = (
    "ttft_ns",
    "tpot_ns",
    "e2e_ns",
    "lateness_ns",
    "ratio",
    "acceptance",
    "output_tokens",
    "prompt_tokens",
    "request_id",
    "head",
)


def upgrade() -> None:
    op.create_table(
        "request_case",
        sa.Column("stem", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("lateness_ns", sa.BigInteger()),
        sa.Column("ttft_ns", sa.BigInteger()),
        sa.Column("tpot_ns", sa.Double()),
        sa.Column("e2e_ns", sa.BigInteger()),
        sa.Column("ratio", sa.Double()),
        sa.Column("acceptance", sa.Double()),
        sa.Column("score", sa.Double()),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger()),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("condition", sa.SmallInteger(), nullable=False),
        sa.Column("block", sa.SmallInteger(), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("differs", sa.Boolean()),
        sa.Column("request_id", sa.Text(collation="C"), nullable=False),
        sa.Column("strata", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("stem", "number", name=op.f("pk_request_case")),
        postgresql_partition_by="LIST (stem)",
    )
    for key in ORDERS:
        op.create_index(op.f(f"ix_request_case_condition_{key}_number"), "request_case", ["condition", key, "number"])
    op.create_index(
        "ix_request_case_failures",
        "request_case",
        ["condition", "outcome", "number"],
        postgresql_where=sa.text("outcome <> 0"),
    )
    op.create_index(
        "ix_request_case_differences", "request_case", ["condition", "number"], postgresql_where=sa.text("differs")
    )
    op.create_table(
        "case_index",
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("cases", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment"], ["experiment.digest"], name=op.f("fk_case_index_experiment"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment", "block", name=op.f("pk_case_index")),
    )


def downgrade() -> None:
    op.drop_table("case_index")
    op.drop_table("request_case")
