"""Webhooks and their deliveries in Postgres. One delivery for each end of an experiment, however many ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, case, delete, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.acting import project_of_actor, visible_project
from app.db.base import Json
from app.db.models import ExperimentRow
from app.db.webhook_models import DeliveryRow, WebhookRow
from app.domain.webhook import EVENT_OF, DeliveryState, Event
from app.webhooks.schemas import DeliveryRead, WebhookRead

LEASE_S = 120
"""A delivery that whoever sends has not ended by then is sent again."""


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery that is this caller's to send."""

    id: UUID
    webhook: UUID
    event: Event
    experiment: str | None
    url: str
    secret: str
    body: Json | None
    attempts: int


class WebhookRepository:
    """Inside the caller's transaction. Whoever acts for a project sees its webhooks only."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, url: str, secret: str) -> WebhookRead:
        row = WebhookRow(id=uuid4(), url=url, secret=secret.encode(), project=project_of_actor())
        self._session.add(row)
        await self._session.flush()
        await self._session.refresh(row)
        return _webhook(row)

    async def all(self) -> list[WebhookRead]:
        """Newest first."""
        rows = await self._session.scalars(select(WebhookRow).where(_visible()).order_by(WebhookRow.created_at.desc()))
        return [_webhook(row) for row in rows]

    async def one(self, webhook: UUID) -> WebhookRead | None:
        row = await self._session.scalar(select(WebhookRow).where(_visible(), WebhookRow.id == webhook))
        return None if row is None else _webhook(row)

    async def remove(self, webhook: UUID) -> bool:
        """With its deliveries; whether it was there."""
        gone = delete(WebhookRow).where(_visible(), WebhookRow.id == webhook).returning(WebhookRow.id)
        return (await self._session.scalar(gone)) is not None

    async def enable(self, webhook: UUID) -> bool:
        values = {"disabled_at": None, "disabled_because": None}
        done = update(WebhookRow).where(_visible(), WebhookRow.id == webhook).values(values).returning(WebhookRow.id)
        return (await self._session.scalar(done)) is not None

    async def ping(self, webhook: UUID) -> UUID:
        """Queue a message that says nothing."""
        row = DeliveryRow(id=uuid4(), webhook_id=webhook, event=Event.PING, state=DeliveryState.PENDING)
        self._session.add(row)
        await self._session.flush()
        return row.id

    async def deliveries(self, webhook: UUID, limit: int) -> list[DeliveryRead]:
        """Newest first."""
        query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook)
        rows = await self._session.scalars(query.order_by(DeliveryRow.created_at.desc(), DeliveryRow.id).limit(limit))
        return [_delivery(row) for row in rows]

    async def delivery(self, delivery: UUID) -> DeliveryRead:
        return _delivery((await self._session.scalars(select(DeliveryRow).where(DeliveryRow.id == delivery))).one())

    async def note_ends(self, within_days: float) -> None:
        """A delivery for each enabled webhook and experiment of its project that ended since it was made."""
        event = case({state: str(e) for state, e in EVENT_OF.items()}, value=ExperimentRow.state)
        of_both = and_(DeliveryRow.webhook_id == WebhookRow.id, DeliveryRow.experiment_id == ExperimentRow.digest)
        ended = (
            select(func.gen_random_uuid(), WebhookRow.id, ExperimentRow.digest, event, literal("PENDING"), literal(0))
            .join(ExperimentRow, ExperimentRow.project == WebhookRow.project)
            .where(
                WebhookRow.disabled_at.is_(None),
                ExperimentRow.state.in_(EVENT_OF),
                ExperimentRow.finished_at >= WebhookRow.created_at,
                ExperimentRow.finished_at > func.now() - timedelta(days=within_days),
                ~exists().where(of_both),
            )
        )
        columns = ("id", "webhook_id", "experiment_id", "event", "state", "attempts")
        await self._session.execute(insert(DeliveryRow).from_select(columns, ended).on_conflict_do_nothing())

    async def take_due(self, limit: int) -> list[Due]:
        """Some that are due and that nobody else sends; they are due again when the lease is over."""
        due = (
            select(DeliveryRow.id)
            .join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
            .where(DeliveryRow.state == DeliveryState.PENDING, DeliveryRow.due_at <= func.now())
            .where(WebhookRow.disabled_at.is_(None) | (DeliveryRow.event == Event.PING))
            .order_by(DeliveryRow.due_at)
            .limit(limit)
            .with_for_update(skip_locked=True, of=DeliveryRow)
        )
        ids = (await self._session.scalars(due)).all()
        leased = {"attempts": DeliveryRow.attempts + 1, "due_at": func.now() + timedelta(seconds=LEASE_S)}
        await self._session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.id.in_(ids))
            .values(leased)
            .execution_options(synchronize_session=False)
        )
        query = select(DeliveryRow, WebhookRow).join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
        found = (await self._session.execute(query.where(DeliveryRow.id.in_(ids)))).all()
        return [_due(delivery, webhook) for delivery, webhook in found]

    async def keep_body(self, delivery: UUID, body: Json) -> None:
        """What is sent now is sent at each later attempt."""
        await self._session.execute(update(DeliveryRow).where(DeliveryRow.id == delivery).values(body=body))

    async def record(
        self, delivery: UUID, *, status: int | None, error: str | None, state: DeliveryState, wait_s: float
    ) -> None:
        """What became of an attempt."""
        over = state is not DeliveryState.PENDING
        values = {
            "last_status": status,
            "last_error": error,
            "state": state,
            "due_at": func.now() + timedelta(seconds=wait_s),
            "finished_at": func.now() if over else None,
        }
        await self._session.execute(update(DeliveryRow).where(DeliveryRow.id == delivery).values(values))

    async def last_states(self, webhook: UUID, count: int) -> Sequence[DeliveryState]:
        """Of its newest deliveries that have an end."""
        query = select(DeliveryRow.state).where(
            DeliveryRow.webhook_id == webhook, DeliveryRow.state != DeliveryState.PENDING
        )
        return (await self._session.scalars(query.order_by(DeliveryRow.finished_at.desc()).limit(count))).all()

    async def disable(self, webhook: UUID, because: str) -> None:
        values = {"disabled_at": func.now(), "disabled_because": because}
        await self._session.execute(update(WebhookRow).where(WebhookRow.id == webhook).values(values))

    async def forget(self, after_days: float) -> None:
        """Deliveries that ended long ago."""
        old = DeliveryRow.finished_at < func.now() - timedelta(days=after_days)
        await self._session.execute(delete(DeliveryRow).where(old))


def _visible() -> ColumnElement[bool]:
    project = visible_project()
    return literal(value=True) if project is None else WebhookRow.project == project


def _webhook(row: WebhookRow) -> WebhookRead:
    return WebhookRead(
        id=row.id,
        url=row.url,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        disabled_because=row.disabled_because,
    )


def _delivery(row: DeliveryRow) -> DeliveryRead:
    return DeliveryRead(
        id=row.id,
        event=row.event,
        experiment=row.experiment_id,
        state=row.state,
        attempts=row.attempts,
        due_at=row.due_at if row.state is DeliveryState.PENDING else None,
        last_status=row.last_status,
        last_error=row.last_error,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def _due(delivery: DeliveryRow, webhook: WebhookRow) -> Due:
    return Due(
        delivery.id,
        webhook.id,
        delivery.event,
        delivery.experiment_id,
        webhook.url,
        webhook.secret.decode(),
        delivery.body,
        delivery.attempts,
    )
