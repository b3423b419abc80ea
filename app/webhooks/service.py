"""Decides about webhooks: which may be made, and what is asked of their deliveries. Opens the transactions."""

import secrets
from typing import Final
from uuid import UUID

from app.db.session import Database
from app.domain.errors import NotFound
from app.domain.webhook import WebhookRefused, checked_url
from app.settings import Settings
from app.webhooks.repository import WebhookRepository
from app.webhooks.schemas import DeliveryRead, WebhookMade, WebhookRead, WebhookWish

WEBHOOKS_MAX: Final = 20
SECRET_PREFIX: Final = "vdw_"  # noqa: S105  (so that scanners of leaked secrets find it)


class WebhookService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings

    async def create(self, wish: WebhookWish) -> WebhookMade:
        """A new one, whose secret is in this answer only; raises ``WebhookRefused``."""
        url = checked_url(wish.url, loopback=self._settings.webhooks_to_loopback)
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        async with self._database.transaction() as session:
            repository = WebhookRepository(session)
            if len(await repository.all()) >= WEBHOOKS_MAX:
                raise WebhookRefused.of("url", f"there are {WEBHOOKS_MAX} webhooks already", "delete one first")
            made = await repository.add(url, secret)
        return WebhookMade(**made.model_dump(), secret=secret)

    async def all(self) -> list[WebhookRead]:
        """Newest first, without their secrets."""
        async with self._database.reader() as session:
            return await WebhookRepository(session).all()

    async def read(self, webhook: UUID) -> WebhookRead:
        """Raises ``NotFound``."""
        async with self._database.reader() as session:
            return await _one(WebhookRepository(session), webhook)

    async def remove(self, webhook: UUID) -> None:
        """With its deliveries; raises ``NotFound``."""
        async with self._database.transaction() as session:
            if not await WebhookRepository(session).remove(webhook):
                raise _unknown(webhook)

    async def enable(self, webhook: UUID) -> WebhookRead:
        """What is pending is sent again; what ended meanwhile is told. Raises ``NotFound``."""
        async with self._database.transaction() as session:
            repository = WebhookRepository(session)
            if not await repository.enable(webhook):
                raise _unknown(webhook)
            return await _one(repository, webhook)

    async def ping(self, webhook: UUID) -> DeliveryRead:
        """Queue a message that says nothing, to see it arrive; raises ``NotFound``."""
        async with self._database.transaction() as session:
            repository = WebhookRepository(session)
            await _one(repository, webhook)
            return await repository.delivery(await repository.ping(webhook))

    async def deliveries(self, webhook: UUID, limit: int) -> list[DeliveryRead]:
        """Newest first; raises ``NotFound``."""
        async with self._database.reader() as session:
            repository = WebhookRepository(session)
            await _one(repository, webhook)
            return await repository.deliveries(webhook, limit)


async def _one(repository: WebhookRepository, webhook: UUID) -> WebhookRead:
    found = await repository.one(webhook)
    if found is None:
        raise _unknown(webhook)
    return found


def _unknown(webhook: UUID) -> NotFound:
    return NotFound.of("webhook_id", f"there is no webhook {webhook}", "GET /api/v1/webhooks lists them")
