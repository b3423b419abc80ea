"""The first tables: traces, experiments, leased blocks, sessions, runs and their evidence."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "experiment",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "QUEUED",
                "RUNNING",
                "FINISHED",
                "FAILED",
                "CANCELED",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("manifest", postgresql.JSONB(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_experiment")),
    )
    op.create_index(op.f("ix_experiment_created_at_digest"), "experiment", ["created_at", "digest"], unique=False)
    op.create_table(
        "trace",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("header", postgresql.JSONB(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_trace")),
    )
    op.create_table(
        "worker_capability",
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("worker", name=op.f("pk_worker_capability")),
    )
    op.create_table(
        "block",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "QUEUED",
                "LEASED",
                "LOST",
                "SUCCEEDED",
                "FAILED",
                "CANCELED",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.digest"], name=op.f("fk_block_experiment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_block")),
        sa.UniqueConstraint("experiment_id", "index", name=op.f("uq_block_experiment_id_index")),
    )
    op.create_index(
        op.f("ix_block_state_created_at_experiment_id_index"),
        "block",
        ["state", "created_at", "experiment_id", "index"],
        unique=False,
    )
    op.create_table(
        "session",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("block_id", sa.Uuid(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "STARTING",
                "WARMING",
                "MEASURING",
                "DRAINING",
                "SUCCEEDED",
                "FAILED",
                "CANCELED",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("startup_ns", sa.BigInteger(), nullable=True),
        sa.Column("argv", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("log_sha256", sa.Text(), nullable=True),
        sa.Column("resolved_config", postgresql.JSONB(), nullable=False),
        sa.Column("memory", postgresql.JSONB(), nullable=False),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["block_id"], ["block.id"], name=op.f("fk_session_block_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
        sa.UniqueConstraint("block_id", "fence", "position", name=op.f("uq_session_block_id_fence_position")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("load", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "MEASURING",
                "SUCCEEDED",
                "FAILED",
                "CANCELED",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("counters", postgresql.JSONB(), nullable=True),
        sa.Column("summary", postgresql.JSONB(), nullable=True),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_run_session_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("session_id", "workload", "load", name=op.f("uq_run_session_id_workload_load")),
    )
    op.create_table(
        "artifact",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_artifact_run_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("fk_artifact_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact")),
    )
    op.create_index(op.f("ix_artifact_run_id"), "artifact", ["run_id"], unique=False)
    op.create_index(op.f("ix_artifact_session_id"), "artifact", ["session_id"], unique=False)
    op.create_index(op.f("ix_artifact_sha256"), "artifact", ["sha256"], unique=False)
    op.create_table(
        "observation",
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column(
            "outcome",
            sa.Enum(
                "success",
                "http_error",
                "stream_error",
                "truncated",
                "deadline_miss",
                "client_cancel",
                "connect_refused",
                "not_sent",
                name="outcome",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("sent_ns", sa.BigInteger(), nullable=True),
        sa.Column("first_byte_ns", sa.BigInteger(), nullable=True),
        sa.Column("end_ns", sa.BigInteger(), nullable=True),
        sa.Column("chunk_ns", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("chunk_tokens", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("token_ids", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("queue_time_ns", sa.BigInteger(), nullable=True),
        sa.Column("num_spec_steps", sa.BigInteger(), nullable=True),
        sa.Column("num_draft_tokens", sa.BigInteger(), nullable=True),
        sa.Column("num_accepted_draft_tokens", sa.BigInteger(), nullable=True),
        sa.Column("acceptance_histogram", postgresql.ARRAY(sa.BigInteger()), nullable=True),
        sa.Column("per_step_accepted", postgresql.ARRAY(sa.BigInteger()), nullable=True),
        sa.Column("per_step_drafted", postgresql.ARRAY(sa.BigInteger()), nullable=True),
        sa.Column("http_status", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_observation_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("experiment", "run_id", "request_id", name=op.f("pk_observation")),
    )
    op.create_index(op.f("ix_observation_run_id"), "observation", ["run_id"], unique=False)
    op.create_table(
        "series",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.JSONB(), nullable=False),
        sa.Column("at_ns", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("values", postgresql.ARRAY(sa.Double()), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_series_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
    )
    op.create_index(op.f("ix_series_run_id"), "series", ["run_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_series_run_id"), table_name="series")
    op.drop_table("series")
    op.drop_index(op.f("ix_observation_run_id"), table_name="observation")
    op.drop_table("observation")
    op.drop_index(op.f("ix_artifact_sha256"), table_name="artifact")
    op.drop_index(op.f("ix_artifact_session_id"), table_name="artifact")
    op.drop_index(op.f("ix_artifact_run_id"), table_name="artifact")
    op.drop_table("artifact")
    op.drop_table("run")
    op.drop_table("session")
    op.drop_index(op.f("ix_block_state_created_at_experiment_id_index"), table_name="block")
    op.drop_table("block")
    op.drop_table("worker_capability")
    op.drop_table("trace")
    op.drop_index(op.f("ix_experiment_created_at_digest"), table_name="experiment")
    op.drop_table("experiment")
