"""The tables of access: projects, accounts, sessions, tokens, rates, and the audit log that only grows."""

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, Index, LargeBinary, func
from sqlalchemy.orm import Mapped, MappedColumn, mapped_column

from app.db.acting import project_of_actor
from app.db.base import Base, Json, word
from app.domain.access import Scope


class ProjectRow(Base):
    """Whom experiments, traces and imported results belong to."""

    __tablename__ = "project"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


def owned_by_project() -> MappedColumn[str]:
    """The project that a row belongs to: that of whoever adds it."""
    return mapped_column(ForeignKey(ProjectRow.name), index=True, default=project_of_actor, server_default="default")


class TraceHolderRow(Base):
    """A trace is kept once under its digest; a project that has uploaded it may see it."""

    __tablename__ = "trace_holder"

    project: Mapped[str] = mapped_column(ForeignKey(ProjectRow.name), primary_key=True)
    trace: Mapped[str] = mapped_column(ForeignKey("trace.digest", ondelete="CASCADE"), primary_key=True, index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AccountRow(Base):
    """A person who logs in with a browser."""

    __tablename__ = "account"

    name: Mapped[str] = mapped_column(primary_key=True)
    password: Mapped[str]
    """Argon2id with its own salt."""
    project: Mapped[str] = mapped_column(ForeignKey(ProjectRow.name))
    scope: Mapped[Scope] = mapped_column(word(Scope, "scope"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    disabled_at: Mapped[datetime | None]


class LoginRow(Base):
    """A browser that is logged in; ``id`` is the SHA-256 of what its cookie holds."""

    __tablename__ = "login"

    id: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey(AccountRow.name, ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]


class TokenRow(Base):
    """An API token: of its secret only the SHA-256 is kept."""

    __tablename__ = "api_token"

    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary)
    name: Mapped[str]
    project: Mapped[str] = mapped_column(ForeignKey(ProjectRow.name))
    scope: Mapped[Scope] = mapped_column(word(Scope, "scope"))
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class AllowanceRow(Base):
    """How much of a rate is taken: ``full_at`` is when all of it is refilled."""

    __tablename__ = "allowance"

    key: Mapped[str] = mapped_column(primary_key=True)
    full_at: Mapped[datetime]


class AuditRow(Base):
    """Who did what to what. A trigger lets rows neither change nor go."""

    __tablename__ = "audit_event"
    __table_args__ = (Index(None, "target"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    actor: Mapped[str]
    project: Mapped[str]
    """No foreign key: what was done outlasts the project."""
    action: Mapped[str]
    target: Mapped[str]
    detail: Mapped[Json] = mapped_column(default=dict)
