"""What the API says of projects, accounts, tokens and the audit log, and what it takes."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, StringConstraints

from app.domain.access import DEFAULT_PROJECT, PASSWORD_MAX, PASSWORD_MIN, Scope, Slug

DAYS_MAX = 366

TokenId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Password = Annotated[SecretStr, Field(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Wish(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WhoRead(_Read):
    """Whom the service takes you for."""

    actor: str
    project: str
    scope: Scope


class ProjectWish(_Wish):
    """A project to be made."""

    name: Slug


class ProjectRead(_Read):
    """Whom experiments, traces and imported results belong to."""

    name: str
    created_at: datetime


class TokenWish(_Wish):
    """A token to be made."""

    name: Slug = Field(description="What it is for; the audit log calls it so.")
    project: Slug = DEFAULT_PROJECT
    scope: Scope = Field(default=Scope.READ, description="submit includes read, admin includes everything.")
    expires_in_days: int = Field(default=90, ge=1, le=DAYS_MAX)


class TokenRead(_Read):
    """A token without its secret."""

    id: str
    name: str
    project: str
    scope: Scope
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class TokenMade(TokenRead):
    """A new token with its secret."""

    token: str = Field(description="Shown this once: the service keeps only a digest.")


class AccountWish(_Wish):
    """An account to be made, or to be given a new password, project or scope."""

    name: Slug
    password: Password
    project: Slug = DEFAULT_PROJECT
    scope: Scope = Scope.READ


class AccountRead(_Read):
    """Someone who may log in with a browser."""

    name: str
    project: str
    scope: Scope
    created_at: datetime
    disabled: bool


class AuditRead(_Read):
    """One thing that was done."""

    id: int
    at: datetime
    actor: str
    project: str
    action: str
    target: str
    detail: dict[str, JsonValue]


class AuditPage(_Read):
    """What was done, newest first; ``next_cursor`` is null on the last page."""

    items: list[AuditRead]
    next_cursor: int | None
