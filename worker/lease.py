"""Hold a block's lease while its story runs; stop the story when the lease is lost, canceled or to be handed over."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.accelerators.repository import AcceleratorRepository
from app.db.session import Database
from app.leases.repository import ClaimedBlock, LeaseRepository

log = structlog.get_logger()

LEAVING_POLL_S = 0.5


class CancelRequested(Exception):
    """Someone asked for the block to be canceled."""


class LeaseLost(Exception):
    """Another holder may have the block now; nothing more may be written."""


class HandOver(Exception):
    """This worker is leaving; another one goes on."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease lasts, how often it is extended, and when its holder gives up by itself; in seconds."""

    lease_s: float
    heartbeat_s: float
    self_fence_s: float


@dataclass(frozen=True, slots=True)
class Lease:
    """One claimed block, kept alive by heartbeats on the database's clock; ``leaving`` says that the worker must go."""

    database: Database
    block: ClaimedBlock
    terms: Terms
    leaving: Callable[[], bool]

    async def hold(self, story: Coroutine[Any, Any, None]) -> None:
        """Run ``story`` to its end.

        Raises ``CancelRequested``, ``LeaseLost`` or ``HandOver`` once the story has stopped and cleaned up.
        """
        telling = asyncio.create_task(story)
        watching = [asyncio.create_task(self._beat()), asyncio.create_task(self._leave())]
        try:
            await asyncio.wait({telling, *watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The story's own cleanup (engine stop) runs inside its cancellation, under a lease that still beats.
            first = next((task for task in (telling, *watching) if task.done()), telling)
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        if not telling.cancelled():
            telling.result()  # also where its cleanup found that the engine could not be stopped
        first.result()

    async def _beat(self) -> None:
        """Extend the lease until it is lost; a database that does not answer counts as one that is away."""
        clock = asyncio.get_running_loop().time
        gives_up_at = clock() + self.terms.self_fence_s
        while True:
            await asyncio.sleep(min(self.terms.heartbeat_s, max(0.0, gives_up_at - clock()) / 2))
            asked_at = clock()
            try:
                async with asyncio.timeout_at(gives_up_at):
                    await self._beat_once()
                gives_up_at = asked_at + self.terms.self_fence_s  # an answer may be late; the lease counts from before
                async with asyncio.timeout(self.terms.self_fence_s / 2):  # then a beat is tried again
                    await self._tend()
            except (OSError, SQLAlchemyError) as error:  # of which a timeout is one
                log.warning("heartbeat failed", error=f"{type(error).__name__}: {error}"[:200])
                if clock() >= gives_up_at:
                    raise LeaseLost from error

    async def _beat_once(self) -> None:
        async with self.database.transaction() as session:
            heartbeat = await LeaseRepository(session).heartbeat(self.block.id, self.block.fence, self.terms.lease_s)
        if not heartbeat.held:
            raise LeaseLost
        if heartbeat.cancel_requested:
            raise CancelRequested

    async def _tend(self) -> None:
        """Say that this host lives, and reap for other workers; each locks what a heartbeat must not wait for."""
        async with self.database.transaction() as session:
            await AcceleratorRepository(session).seen(self.block.host)
        async with self.database.transaction() as session:
            await LeaseRepository(session).reap_expired()

    async def _leave(self) -> None:
        while not self.leaving():  # noqa: ASYNC110  (it is said by another process)
            await asyncio.sleep(LEAVING_POLL_S)
        raise HandOver
