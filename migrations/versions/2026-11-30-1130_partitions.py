"""Observations and series in a partition per experiment; memory, devices, controls, reports and imported results."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

NOW = sa.text("now()")
DOCUMENTS = sa.text("'[]'::jsonb")


def upgrade() -> None:
    _partition_observation()
    _partition_series()
    op.add_column("session", sa.Column("memory_breakdown", postgresql.JSONB()))
    for table, column in (("session", "devices"), ("run", "controls")):
        op.add_column(table, sa.Column(column, postgresql.JSONB(), nullable=False, server_default=DOCUMENTS))
        op.alter_column(table, column, server_default=None)
    op.add_column(
        "run", sa.Column("unobservable", postgresql.JSONB(), nullable=False, server_default=sa.text("'{}'::jsonb"))
    )
    op.alter_column("run", "unobservable", server_default=None)
    op.create_table(
        "report",
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        sa.ForeignKeyConstraint(
            ["experiment"], ["experiment.digest"], name=op.f("fk_report_experiment"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment", "key", name=op.f("pk_report")),
    )
    op.create_table(
        "imported_result",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Text()),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiment.digest"],
            name=op.f("fk_imported_result_experiment_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_imported_result")),
    )
    op.create_index(op.f("ix_imported_result_experiment_id"), "imported_result", ["experiment_id"])


def downgrade() -> None:
    op.drop_table("imported_result")
    op.drop_table("report")
    op.drop_column("run", "unobservable")
    op.drop_column("run", "controls")
    op.drop_column("session", "devices")
    op.drop_column("session", "memory_breakdown")
    _gather_series()
    _gather_observation()


def _partition_observation() -> None:
    op.drop_constraint(op.f("fk_observation_run_id"), "observation", type_="foreignkey")
    op.drop_index(op.f("ix_observation_run_id"), table_name="observation")
    _set_aside("observation")
    op.execute("CREATE TABLE observation (LIKE observation_before INCLUDING ALL) PARTITION BY LIST (experiment)")
    _name_key("observation")
    _fill("observation", "observation_before")


def _partition_series() -> None:
    """Out of the way first: PostgreSQL numbers the names of NOT NULL constraints while an older table has them."""
    op.execute(
        "CREATE TABLE series_located AS"
        " SELECT b.experiment_id AS experiment, s.id, s.run_id, s.name, 0::bigint AS chunk,"
        " s.labels, s.at_ns, s.values FROM series s JOIN run r ON r.id = s.run_id"
        " JOIN session n ON n.id = r.session_id JOIN block b ON b.id = n.block_id"
    )
    op.drop_table("series")
    op.execute(
        "CREATE TABLE series (experiment text NOT NULL, id uuid NOT NULL, run_id uuid NOT NULL, name text NOT NULL,"
        " chunk bigint NOT NULL, labels jsonb NOT NULL, at_ns bigint[] NOT NULL, values double precision[] NOT NULL,"
        " CONSTRAINT pk_series PRIMARY KEY (experiment, id)) PARTITION BY LIST (experiment)"
    )
    op.create_index(op.f("ix_series_run_id"), "series", ["run_id"])
    _fill("series", "series_located")


def _gather_series() -> None:
    """The stretches of a long quantity become one row again, as earlier versions expect."""
    op.execute(
        "CREATE TABLE series_gathered AS SELECT s.id, s.run_id, s.name, s.labels,"  # noqa: S608  (our own names)
        f" {_all_of('at_ns')} AS at_ns, {_all_of('values')} AS values"
        " FROM series s WHERE s.chunk = 0 AND s.run_id IN (SELECT id FROM run)"
    )
    op.drop_table("series")
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
    op.create_index(op.f("ix_series_run_id"), "series", ["run_id"])
    op.execute("INSERT INTO series SELECT * FROM series_gathered")
    op.drop_table("series_gathered")


def _all_of(array: str) -> str:
    return (
        f"ARRAY(SELECT e.value FROM series c, unnest(c.{array}) WITH ORDINALITY AS e(value, place)"  # noqa: S608
        " WHERE (c.experiment, c.run_id, c.name, c.labels) = (s.experiment, s.run_id, s.name, s.labels)"
        " ORDER BY c.chunk, e.place)"
    )


def _gather_observation() -> None:
    _set_aside("observation")
    op.execute("CREATE TABLE observation (LIKE observation_before INCLUDING ALL)")
    _name_key("observation")
    op.execute("INSERT INTO observation SELECT * FROM observation_before WHERE run_id IN (SELECT id FROM run)")
    op.drop_table("observation_before")
    op.create_foreign_key(op.f("fk_observation_run_id"), "observation", "run", ["run_id"], ["id"], ondelete="CASCADE")
    op.create_index(op.f("ix_observation_run_id"), "observation", ["run_id"])


def _set_aside(table: str) -> None:
    """Names of keys are shared by all tables, so the old one's must make way too."""
    op.execute(f"ALTER TABLE {table} RENAME TO {table}_before")
    op.execute(f"ALTER INDEX pk_{table} RENAME TO pk_{table}_before")


def _name_key(table: str) -> None:
    op.execute(f"ALTER INDEX {table}_pkey RENAME TO pk_{table}")


def _fill(table: str, source: str) -> None:
    """Each experiment's rows into a partition of its own; the names are those of ``app.db.partitions``."""
    experiments = op.get_bind().execute(sa.text("SELECT digest FROM experiment")).scalars().all()
    for experiment in experiments:
        op.execute(f"CREATE TABLE {table}_{experiment[:32]} PARTITION OF {table} FOR VALUES IN ('{experiment}')")
    op.execute(f"INSERT INTO {table} SELECT * FROM {source}")  # noqa: S608  (both names are ours)
    op.drop_table(source)
