"""Decides who a credential stands for, makes and revokes credentials, and counts attempts. Opens the transactions."""

import hmac
import secrets
from typing import Final

from anyio import to_thread

from app.access.audit import repository as audit
from app.access.passwords import hash_of, matches
from app.access.repository import AccessRepository
from app.access.schemas import (
    AccountRead,
    AccountWish,
    AuditPage,
    ProjectRead,
    TokenMade,
    TokenRead,
    TokenWish,
)
from app.db.acting import actor
from app.db.session import Database
from app.domain.access import (
    SLUG,
    NotAuthenticated,
    Principal,
    TokenParts,
    TooManyRequests,
    digest_of,
    parse_token,
)
from app.domain.errors import IllegalTransition, NotFound

LOGIN_HOURS: Final = 12.0
_NOBODY: Final = digest_of("")


class AccessService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bearer(self, token: str) -> Principal:
        """Whom a token stands for; looked up each time, so a revoked one is refused at once."""
        parts = parse_token(token)
        async with self._database.reader() as session:
            known = await AccessRepository(session).valid_token(parts.id if parts else "")
        stored, principal = known or (_NOBODY, None)
        right = hmac.compare_digest(stored, digest_of(parts.secret if parts else ""))
        if parts is None or principal is None or not right:
            remedy = "make a new one with `verdraft token create`, or ask an administrator"
            raise NotAuthenticated.of("Authorization", "the token is unknown, revoked or expired", remedy)
        return principal

    async def still_valid(self, principal: Principal) -> bool:
        """Whether the credential behind a long answer would still let somebody in."""
        kind, _, name = principal.key.partition(":")
        async with self._database.reader() as session:
            repository = AccessRepository(session)
            if kind == "token":
                return await repository.valid_token(name) is not None
            return kind != "account" or await repository.password_of(name) is not None

    async def logged_in(self, login: str) -> Principal:
        """Whom a browser's login stands for; raises ``NotAuthenticated``."""
        async with self._database.reader() as session:
            principal = await AccessRepository(session).logged_in(digest_of(login))
        if principal is None:
            raise NotAuthenticated.of("Cookie", "the login is over", "log in again")
        return principal

    async def log_in(self, account: str, password: str) -> str:
        """The secret of a new login; raises ``NotAuthenticated``, which does not say what of the two was wrong."""
        known = SLUG.fullmatch(account) is not None
        async with self._database.reader() as session:
            stored = await AccessRepository(session).password_of(account if known else "")
        if not await to_thread.run_sync(matches, password, stored):
            async with self._database.transaction() as session:
                await audit.record(session, "login.refused", f"account:{account if known else '(no such name)'}")
            raise NotAuthenticated.of("password", "name or password is wrong", "try again, or ask an administrator")
        login = secrets.token_urlsafe(32)
        async with self._database.transaction() as session:
            await AccessRepository(session).log_in(digest_of(login), account, LOGIN_HOURS)
            await audit.record(session, "login", f"account:{account}")
        return login

    async def log_out(self, login: str) -> None:
        """End a login."""
        async with self._database.transaction() as session:
            account = await AccessRepository(session).log_out(digest_of(login))
            if account is not None:
                await audit.record(session, "logout", f"account:{account}")

    async def count(self, key: str, per_minute: int) -> None:
        """One more of what is limited; raises ``TooManyRequests``. Its own transaction: a refusal counts nothing."""
        async with self._database.transaction() as session:
            allowed = await AccessRepository(session).take(key, per_minute)
        if not allowed.passes:
            wait = allowed.retry_after_s
            refused = TooManyRequests.of("(rate)", f"more than {per_minute} in a minute", f"come again in {wait} s")
            refused.retry_after_s = wait
            raise refused

    async def create_token(self, wish: TokenWish) -> TokenMade:
        """A new token, whose secret is shown in this answer only; raises ``NotFound`` for an unknown project."""
        parts = TokenParts(secrets.token_hex(6), secrets.token_urlsafe(32))
        granted = Principal(f"token:{wish.name}", wish.project, wish.scope, parts.id)
        async with self._database.transaction() as session:
            repository = AccessRepository(session)
            await _require_project(repository, wish.project)
            made = await repository.add_token(
                parts.id, digest_of(parts.secret), wish.name, granted, actor().actor, wish.expires_in_days
            )
            await audit.record(
                session, "token.create", f"token:{parts.id}", name=wish.name, project=wish.project, scope=wish.scope
            )
        return TokenMade(**made.model_dump(), token=parts.whole)

    async def tokens(self) -> list[TokenRead]:
        """Every token without its secret, newest first."""
        async with self._database.reader() as session:
            return await AccessRepository(session).tokens()

    async def revoke(self, token_id: str) -> None:
        """Refuse it from now on; raises ``NotFound``."""
        async with self._database.transaction() as session:
            name = await AccessRepository(session).revoke(token_id)
            if name is None:
                raise NotFound.of("token", f"no valid token has the id {token_id}", "list the tokens")
            await audit.record(session, "token.revoke", f"token:{token_id}", name=name)

    async def create_project(self, name: str) -> list[ProjectRead]:
        """Every project, with the new one; raises ``IllegalTransition`` where there is one of that name."""
        async with self._database.transaction() as session:
            repository = AccessRepository(session)
            if not await repository.add_project(name):
                raise IllegalTransition.of("name", f"there is a project {name} already", "choose another name")
            await audit.record(session, "project.create", f"project:{name}")
            return await repository.projects()

    async def projects(self) -> list[ProjectRead]:
        """Every project, by name."""
        async with self._database.reader() as session:
            return await AccessRepository(session).projects()

    async def set_account(self, wish: AccountWish) -> list[AccountRead]:
        """Every account, with the new or changed one; raises ``NotFound`` for an unknown project."""
        hashed = await to_thread.run_sync(hash_of, wish.password.get_secret_value())
        async with self._database.transaction() as session:
            repository = AccessRepository(session)
            await _require_project(repository, wish.project)
            await repository.set_account(wish.name, hashed, wish.project, wish.scope)
            await audit.record(session, "account.set", f"account:{wish.name}", project=wish.project, scope=wish.scope)
            return await repository.accounts()

    async def accounts(self) -> list[AccountRead]:
        """Every account, by name."""
        async with self._database.reader() as session:
            return await AccessRepository(session).accounts()

    async def disable_account(self, name: str) -> None:
        """Nobody may log in with it any more; raises ``NotFound``."""
        async with self._database.transaction() as session:
            if not await AccessRepository(session).disable_account(name):
                raise NotFound.of("account", f"no enabled account has the name {name}", "list the accounts")
            await audit.record(session, "account.disable", f"account:{name}")

    async def audit(self, before: int | None, limit: int) -> AuditPage:
        """What was done, newest first."""
        async with self._database.reader() as session:
            return await audit.page(session, before, limit)

    async def nobody_may_administer(self) -> bool:
        """Whether a first token must be made."""
        async with self._database.reader() as session:
            return await AccessRepository(session).nobody_may_administer()


async def _require_project(repository: AccessRepository, name: str) -> None:
    if not await repository.has_project(name):
        raise NotFound.of("project", f"there is no project {name}", "make it first: POST /api/v1/projects")
