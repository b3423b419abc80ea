"""Who may do what: scopes, principals, the form of a token, and how often something may be asked for.

Pure rules. A principal acts for one project; only an admin sees the others.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from pydantic import StringConstraints

from app.domain.errors import DomainError

DEFAULT_PROJECT: Final = "default"
TOKEN_PREFIX: Final = "vdt"  # noqa: S105  (how a token begins, so that scanners of leaked secrets find it)
TOKEN_FORM: Final = re.compile(r"vdt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
TOKEN_IN_TEXT: Final = re.compile(r"vdt_[0-9a-f]{12}_[A-Za-z0-9_-]+")
PASSWORD_MIN: Final = 12
PASSWORD_MAX: Final = 256

SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""The name of a project, token or account."""


class Scope(StrEnum):
    """What one may do; each includes the ones before it."""

    READ = "read"
    """See everything of the project."""
    SUBMIT = "submit"
    """Also register experiments, upload traces and results, cancel."""
    ADMIN = "admin"
    """Everything of every project: delete, quarantine, projects, accounts, tokens, the audit log."""


_ORDER: Final = tuple(Scope)


class NotAuthenticated(DomainError):
    """No credential, or one that is not valid (any more)."""

    title = "Who asks is not known"


class NotAllowed(DomainError):
    """The credential is valid and its scope is too small."""

    title = "The scope does not allow this"


class TooManyRequests(DomainError):
    """A rate or a quota is used up; ``retry_after_s`` says when to come again."""

    title = "Too many requests"
    retry_after_s: int = 60


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, for which project, and what for."""

    actor: str
    """``token:NAME``, ``account:NAME`` or ``local``: as the audit log has it."""
    project: str
    scope: Scope
    key: str
    """What rates are counted by: the token or account."""

    @property
    def sees_only(self) -> str | None:
        """The one project that is visible; ``None`` sees all."""
        return None if self.scope is Scope.ADMIN else self.project

    def may(self, scope: Scope) -> bool:
        """Whether the scope suffices."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)


LOCAL: Final = Principal(actor="local", project=DEFAULT_PROJECT, scope=Scope.ADMIN, key="local")
"""Who uses a service without access control on its own loopback."""


class TokenParts(NamedTuple):
    """The public id of a token, under which it is found and listed, and its secret."""

    id: str
    secret: str

    @property
    def whole(self) -> str:
        """What the client sends."""
        return f"{TOKEN_PREFIX}_{self.id}_{self.secret}"


def parse_token(text: str) -> TokenParts | None:
    """The parts of a token, or ``None`` for what has another form."""
    match = TOKEN_FORM.fullmatch(text)
    return None if match is None else TokenParts(match[1], match[2])


def digest_of(secret: str) -> bytes:
    """What is stored of a random secret of 256 bits: it has no dictionary, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()


def without_tokens(text: str) -> str:
    """A text in which no token can be read any more."""
    return TOKEN_IN_TEXT.sub(f"{TOKEN_PREFIX}_…", text)


class Allowed(NamedTuple):
    """Whether one more may pass, and from when on what is stored the next would."""

    passes: bool
    full_at: datetime
    retry_after_s: int


def take(full_at: datetime | None, now: datetime, per_minute: int) -> Allowed:
    """One more under a rate with a burst of a minute (GCRA): ``full_at`` is when all that was taken is refilled."""
    step = timedelta(minutes=1) / per_minute
    after = max(full_at or now, now) + step
    over = after - now - timedelta(minutes=1)
    if over > timedelta(0):
        return Allowed(passes=False, full_at=full_at or now, retry_after_s=int(over.total_seconds()) + 1)
    return Allowed(passes=True, full_at=after, retry_after_s=0)


def local_path(address: str) -> str:
    """Where to go after a login: a path of this service, or the first page."""
    harmless = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if harmless else "/"
