"""The first administrator's token, made on a host that reaches the database: nobody could ask for it over HTTP."""

import asyncio
from typing import Final

from app.access.schemas import TokenMade, TokenWish
from app.access.service import AccessService
from app.db.session import Database
from app.domain.access import Scope
from app.settings import Settings

FIRST: Final = TokenWish(name="first-admin", scope=Scope.ADMIN, expires_in_days=90)


def admin_token(settings: Settings) -> TokenMade:
    """A new one, however many there are: the way back in for whoever has lost theirs."""
    return asyncio.run(_made(settings, only_if_needed=False)) or _impossible()


def first_admin_token(settings: Settings) -> TokenMade | None:
    """One where access is required and nobody may administer yet."""
    return asyncio.run(_made(settings, only_if_needed=True)) if settings.access == "required" else None


async def _made(settings: Settings, *, only_if_needed: bool) -> TokenMade | None:
    database = Database(settings.database_url.get_secret_value(), pooled=False)
    try:
        service = AccessService(database)
        if only_if_needed and not await service.nobody_may_administer():
            return None
        return await service.create_token(FIRST)
    finally:
        await database.dispose()


def _impossible() -> TokenMade:
    raise AssertionError("a token that is always made was not made")
