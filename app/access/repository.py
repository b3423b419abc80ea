"""Projects, accounts, logins and tokens in Postgres; secrets only as digests."""

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.access.schemas import AccountRead, ProjectRead, TokenRead
from app.db.access_models import AccountRow, AllowanceRow, LoginRow, ProjectRow, TokenRow
from app.domain.access import Allowed, Principal, Scope, take

FORGOTTEN_AT_ONCE = 100


class AccessRepository:
    """Inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def projects(self) -> list[ProjectRead]:
        """By name."""
        rows = await self._session.scalars(select(ProjectRow).order_by(ProjectRow.name))
        return [ProjectRead(name=row.name, created_at=row.created_at) for row in rows]

    async def add_project(self, name: str) -> bool:
        """Whether it is new."""
        added = insert(ProjectRow).values(name=name).on_conflict_do_nothing().returning(ProjectRow.name)
        return await self._session.scalar(added) is not None

    async def has_project(self, name: str) -> bool:
        return await self._session.get(ProjectRow, name) is not None

    async def add_token(  # noqa: PLR0917  (a token is these facts)
        self, token_id: str, digest: bytes, name: str, principal: Principal, created_by: str, days: int | None
    ) -> TokenRead:
        """Keep a new token; without ``days`` it does not expire."""
        expires_at = None if days is None else await self._now() + timedelta(days=days)
        row = TokenRow(
            id=token_id,
            digest=digest,
            name=name,
            project=principal.project,
            scope=principal.scope,
            created_by=created_by,
            expires_at=expires_at,
        )
        self._session.add(row)
        await self._session.flush()
        await self._session.refresh(row)
        return _token(row)

    async def tokens(self) -> list[TokenRead]:
        """Newest first, the revoked and expired ones too."""
        rows = await self._session.scalars(select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id))
        return [_token(row) for row in rows]

    async def valid_token(self, token_id: str) -> tuple[bytes, Principal] | None:
        """The digest of its secret and whom it stands for; ``None`` once it is revoked or expired."""
        query = select(TokenRow).where(TokenRow.id == token_id, TokenRow.revoked_at.is_(None))
        row = await self._session.scalar(query.where(_UNEXPIRED))
        if row is None:
            return None
        return row.digest, Principal(f"token:{row.name}", row.project, Scope(row.scope), f"token:{row.id}")

    async def revoke(self, token_id: str) -> str | None:
        """From the next request on. Its name, or ``None`` where there is none that is still valid."""
        query = update(TokenRow).where(TokenRow.id == token_id, TokenRow.revoked_at.is_(None))
        return await self._session.scalar(query.values(revoked_at=func.now()).returning(TokenRow.name))

    async def nobody_may_administer(self) -> bool:
        """Whether there is neither a token nor an account that could let anybody in."""
        tokens = select(TokenRow.id).where(TokenRow.scope == Scope.ADMIN, TokenRow.revoked_at.is_(None), _UNEXPIRED)
        accounts = select(AccountRow.name).where(AccountRow.scope == Scope.ADMIN, AccountRow.disabled_at.is_(None))
        found = await self._session.scalar(tokens.limit(1)) or await self._session.scalar(accounts.limit(1))
        return found is None

    async def accounts(self) -> list[AccountRead]:
        """By name."""
        rows = await self._session.scalars(select(AccountRow).order_by(AccountRow.name))
        return [
            AccountRead(
                name=r.name,
                project=r.project,
                scope=Scope(r.scope),
                created_at=r.created_at,
                disabled=r.disabled_at is not None,
            )
            for r in rows
        ]

    async def set_account(self, name: str, password: str, project: str, scope: Scope) -> None:
        """A new account, or a new password and place for one; whoever was logged in is logged out."""
        given = {"password": password, "project": project, "scope": scope, "disabled_at": None}
        row = insert(AccountRow).values(name=name, **given)
        await self._session.execute(row.on_conflict_do_update(index_elements=["name"], set_=given))
        await self._session.execute(delete(LoginRow).where(LoginRow.account == name))

    async def disable_account(self, name: str) -> bool:
        """Log it out everywhere and for good; whether there was one."""
        await self._session.execute(delete(LoginRow).where(LoginRow.account == name))
        query = update(AccountRow).where(AccountRow.name == name, AccountRow.disabled_at.is_(None))
        gone = query.values(disabled_at=func.now()).returning(AccountRow.name)
        return await self._session.scalar(gone) is not None

    async def password_of(self, account: str) -> str | None:
        """The hash of its password, while it is enabled."""
        query = select(AccountRow.password).where(AccountRow.name == account, AccountRow.disabled_at.is_(None))
        return await self._session.scalar(query)

    async def log_in(self, login: bytes, account: str, hours: float) -> None:
        """Keep a login; those that are over go."""
        await self._session.execute(delete(LoginRow).where(LoginRow.expires_at <= func.now()))
        expires_at = await self._now() + timedelta(hours=hours)
        self._session.add(LoginRow(id=login, account=account, expires_at=expires_at))
        await self._session.flush()

    async def log_out(self, login: bytes) -> str | None:
        """The account whose login ended."""
        return await self._session.scalar(delete(LoginRow).where(LoginRow.id == login).returning(LoginRow.account))

    async def logged_in(self, login: bytes) -> Principal | None:
        """Whom a login stands for, while it lasts and its account is enabled."""
        query = select(AccountRow).join(LoginRow, LoginRow.account == AccountRow.name)
        valid = query.where(LoginRow.id == login, LoginRow.expires_at > func.now(), AccountRow.disabled_at.is_(None))
        row = await self._session.scalar(valid)
        if row is None:
            return None
        return Principal(f"account:{row.name}", row.project, Scope(row.scope), f"account:{row.name}")

    async def take(self, key: str, per_minute: int) -> Allowed:
        """One more of a rate; who asks at the same time waits."""
        await self._session.execute(insert(AllowanceRow).values(key=key, full_at=func.now()).on_conflict_do_nothing())
        held = select(AllowanceRow.full_at).where(AllowanceRow.key == key).with_for_update()
        full_at = await self._session.scalar(held)
        allowed = take(full_at, await self._now(), per_minute)
        await self._session.execute(update(AllowanceRow).where(AllowanceRow.key == key).values(full_at=allowed.full_at))
        await self._forget_refilled()
        return allowed

    async def _forget_refilled(self) -> None:
        """Some rates of which nothing is taken; those that somebody holds are left, so that nobody waits."""
        refilled = select(AllowanceRow.key).where(AllowanceRow.full_at < func.now() - timedelta(minutes=1))
        some = refilled.limit(FORGOTTEN_AT_ONCE).with_for_update(skip_locked=True)
        await self._session.execute(delete(AllowanceRow).where(AllowanceRow.key.in_(some)))

    async def _now(self) -> datetime:
        return (await self._session.scalars(select(func.clock_timestamp()))).one()


_UNEXPIRED = TokenRow.expires_at.is_(None) | (TokenRow.expires_at > func.now())


def _token(row: TokenRow) -> TokenRead:
    return TokenRead.model_validate({name: getattr(row, name) for name in TokenRead.model_fields})
