"""Tells webhooks of what has ended, from the web process: workers, and so measurements, know nothing of it.

At least once: a message whose sender died is sent again under the same id.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.comparisons.service import ComparisonService
from app.db.session import Database
from app.domain.canonical import canonical_json
from app.domain.errors import DomainError
from app.domain.webhook import FAILED_MAX, DeliveryState, Event, retry_after_s, signature
from app.experiments.service import ExperimentService
from app.settings import Settings
from app.webhooks.repository import Due, WebhookRepository
from app.webhooks.schemas import Message, Told
from app.webhooks.sending import Sent, send

PERIOD_S: Final = 5.0
AT_ONCE: Final = 8
KEPT_DAYS: Final = 30.0
SIGNATURE: Final = "Verdraft-Signature"
DELIVERY: Final = "Verdraft-Delivery"
EVENT: Final = "Verdraft-Event"

log = structlog.stdlib.get_logger()


class Deliverer:
    """One per web process; several share the work through Postgres."""

    def __init__(self, database: Database, settings: Settings, comparisons: ComparisonService) -> None:
        self._database, self._settings, self._comparisons = database, settings, comparisons
        self._experiments = ExperimentService(database, settings)

    async def look(self) -> int:
        """Send what is due; how many messages that were."""
        async with self._database.transaction() as session:
            repository = WebhookRepository(session)
            await repository.note_ends(KEPT_DAYS)
            await repository.forget(KEPT_DAYS)
            due = await repository.take_due(AT_ONCE)
        await asyncio.gather(*map(self._deliver, due))
        return len(due)

    async def _deliver(self, due: Due) -> None:
        body = canonical_json(due.body) if due.body is not None else await self._body(due)
        headers = {
            "content-type": "application/json",
            "user-agent": "Verdraft",
            DELIVERY: str(due.id),
            EVENT: str(due.event),
            SIGNATURE: signature(due.secret, int(time.time()), body),
        }
        sent = await send(due.url, body, headers, loopback=self._settings.webhooks_to_loopback)
        await self._record(due, sent)

    async def _record(self, due: Due, sent: Sent) -> None:
        wait_s = retry_after_s(due.attempts)
        state = DeliveryState.PENDING
        if sent.delivered:
            state = DeliveryState.DELIVERED
        elif wait_s is None or due.event is Event.PING:
            state = DeliveryState.FAILED
        async with self._database.transaction() as session:
            repository = WebhookRepository(session)
            await repository.record(due.id, status=sent.status, error=sent.error, state=state, wait_s=wait_s or 0)
            if state is DeliveryState.FAILED and due.event is not Event.PING:
                last = await repository.last_states(due.webhook, FAILED_MAX)
                if len(last) == FAILED_MAX and set(last) == {DeliveryState.FAILED}:
                    because = f"{FAILED_MAX} messages in a row were not delivered; the last: {sent.error}"
                    await repository.disable(due.webhook, because)
        log.info("webhook", delivery=str(due.id), told=due.event, state=state, status=sent.status, error=sent.error)

    async def _body(self, due: Due) -> bytes:
        """Made once: what a receiver is told a second time is what it was told first."""
        told = None if due.experiment is None else await self._told(due.experiment, weigh=due.event is Event.FINISHED)
        document = Message(id=due.id, event=due.event, experiment=told).model_dump(mode="json")
        async with self._database.transaction() as session:
            await WebhookRepository(session).keep_body(due.id, document)
        return canonical_json(document)

    async def _told(self, experiment: str, *, weigh: bool) -> Told:
        if weigh:
            try:
                await self._comparisons.weigh(experiment)
            except (DomainError, RuntimeError, OSError) as error:  # it is told without its words
                log.warning("an ended experiment has no report", experiment=experiment, error=str(error))
        read = await self._experiments.read(experiment)
        return Told(
            id=read.id,
            name=read.name,
            state=read.state,
            finished_at=read.finished_at,
            verdicts=read.verdicts,
            page=self._address(read.links.page),
            report=self._address(read.links.report),
        )

    def _address(self, path: str) -> str:
        """With a public address of the service a whole one, else its path."""
        return self._settings.public_url.rstrip("/") + path


@asynccontextmanager
async def delivering(deliverer: Deliverer, *, period_s: float = PERIOD_S) -> AsyncGenerator[None]:
    """Look every ``period_s`` while the context is entered."""
    task = asyncio.create_task(_forever(deliverer, period_s), name="webhooks")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _forever(deliverer: Deliverer, period_s: float) -> None:
    while True:
        try:
            while await deliverer.look() == AT_ONCE:
                pass
        except (SQLAlchemyError, OSError) as error:
            log.warning("webhooks could not be looked for; the next look is soon", error=str(error).split("\n", 1)[0])
        except Exception:  # the boundary of a task that nobody waits for: recorded, and tried again
            log.exception("delivering webhooks failed")
        await asyncio.sleep(period_s)
