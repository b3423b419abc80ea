"""Projects own experiments, traces and imports; accounts, tokens and rates; an audit log that only grows."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

NOW = sa.text("now()")
MOMENT = sa.DateTime(timezone=True)
SCOPES = "scope IN ('read', 'submit', 'admin')"
OWNED = ("experiment", "imported_result")
TABLES = ("audit_event", "allowance", "api_token", "login", "account", "trace_holder", "project")


def upgrade() -> None:
    op.create_table("project", _name(), _created(), sa.PrimaryKeyConstraint("name", name=op.f("pk_project")))
    op.execute("INSERT INTO project (name) VALUES ('default')")
    for table in OWNED:
        owner = sa.Column("project", sa.Text(), nullable=False, server_default=sa.text("'default'"))
        op.add_column(table, owner)
        op.create_foreign_key(op.f(f"fk_{table}_project"), table, "project", ["project"], ["name"])
        op.create_index(op.f(f"ix_{table}_project"), table, ["project"])
    _traces()
    _people()
    _log()


def downgrade() -> None:
    for table in OWNED:
        op.drop_index(op.f(f"ix_{table}_project"), table)
        op.drop_constraint(op.f(f"fk_{table}_project"), table, type_="foreignkey")
        op.drop_column(table, "project")
    for table in TABLES:
        op.drop_table(table)
    op.execute("DROP FUNCTION audit_only_grows()")


def _traces() -> None:
    op.create_table(
        "trace_holder",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        _created(),
        sa.ForeignKeyConstraint(["project"], ["project.name"], name=op.f("fk_trace_holder_project")),
        sa.ForeignKeyConstraint(["trace"], ["trace.digest"], name=op.f("fk_trace_holder_trace"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project", "trace", name=op.f("pk_trace_holder")),
    )
    op.create_index(op.f("ix_trace_holder_trace"), "trace_holder", ["trace"])
    op.execute("INSERT INTO trace_holder (project, trace) SELECT 'default', digest FROM trace")


def _people() -> None:
    op.create_table(
        "account",
        _name(),
        sa.Column("password", sa.Text(), nullable=False),
        *_granted(),
        _created(),
        sa.Column("disabled_at", MOMENT),
        sa.CheckConstraint(SCOPES, name=op.f("ck_account_scope")),
        sa.ForeignKeyConstraint(["project"], ["project.name"], name=op.f("fk_account_project")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_account")),
    )
    op.create_table(
        "login",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        _created(),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_login_account"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login")),
    )
    op.create_index(op.f("ix_login_account"), "login", ["account"])
    op.create_table(
        "api_token",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _name(),
        *_granted(),
        sa.Column("created_by", sa.Text(), nullable=False),
        _created(),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.CheckConstraint(SCOPES, name=op.f("ck_api_token_scope")),
        sa.ForeignKeyConstraint(["project"], ["project.name"], name=op.f("fk_api_token_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
    )
    op.create_table(
        "allowance",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("full_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_allowance")),
    )


def _log() -> None:
    op.create_table(
        "audit_event",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", MOMENT, nullable=False, server_default=NOW),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("actor", "project", "action", "target")),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_event")),
    )
    op.create_index(op.f("ix_audit_event_target"), "audit_event", ["target"])
    op.execute(
        "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'the audit log only grows'; END$$"
    )
    op.execute(
        "CREATE TRIGGER audit_event_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_event "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()"
    )


def _name() -> sa.Column[str]:
    return sa.Column("name", sa.Text(), nullable=False)


def _created() -> sa.Column[object]:
    return sa.Column("created_at", MOMENT, nullable=False, server_default=NOW)


def _granted() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("project", sa.Text(), nullable=False), sa.Column("scope", sa.String(32), nullable=False)
