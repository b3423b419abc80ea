"""Webhooks: be told when an experiment of the project ends, and see what was delivered."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.access.gate import needs
from app.delivery.wishes import once
from app.domain.access import Scope
from app.domain.errors import NotFound
from app.domain.webhook import WebhookRefused
from app.errors import responses
from app.state import DatabaseDep, SettingsDep
from app.webhooks.schemas import DeliveryRead, WebhookMade, WebhookRead, WebhookWish
from app.webhooks.service import WebhookService

router = APIRouter(
    prefix="/api/v1/webhooks",
    tags=["webhooks"],
    dependencies=[needs(Scope.SUBMIT)],
    responses=responses(NotFound),
)


def webhook_service(database: DatabaseDep, settings: SettingsDep) -> WebhookService:
    """The service of this request."""
    return WebhookService(database, settings)


ServiceDep = Annotated[WebhookService, Depends(webhook_service)]


@router.post(
    "",
    status_code=201,
    dependencies=[once(secret=True)],
    responses=responses(WebhookRefused),
)
async def create_webhook(wish: WebhookWish, service: ServiceDep) -> WebhookMade:
    """Tell an address when experiments end from now on. Its secret is in this answer and never again."""
    return await service.create(wish)


@router.get("")
async def list_webhooks(service: ServiceDep) -> list[WebhookRead]:
    """Every webhook of the project without its secret, newest first."""
    return await service.all()


@router.get("/{webhook_id}")
async def read_webhook(webhook_id: UUID, service: ServiceDep) -> WebhookRead:
    """One webhook, and whether it was disabled."""
    return await service.read(webhook_id)


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: UUID, service: ServiceDep) -> None:
    """Tell it nothing more, and forget what was delivered."""
    await service.remove(webhook_id)


@router.post("/{webhook_id}/enable", dependencies=[once()])
async def enable_webhook(webhook_id: UUID, service: ServiceDep) -> WebhookRead:
    """Use a webhook again that was disabled because nothing could be delivered."""
    return await service.enable(webhook_id)


@router.post("/{webhook_id}/ping", status_code=202, dependencies=[once()])
async def ping_webhook(webhook_id: UUID, service: ServiceDep) -> DeliveryRead:
    """Send a message that says nothing, within seconds and once; the deliveries tell whether it arrived."""
    return await service.ping(webhook_id)


@router.get("/{webhook_id}/deliveries")
async def list_deliveries(
    webhook_id: UUID, service: ServiceDep, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[DeliveryRead]:
    """The newest messages to a webhook and what became of each; kept for 30 days."""
    return await service.deliveries(webhook_id, limit)
