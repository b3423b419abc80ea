"""Hold a block's lease while its story runs; stop the story when the lease is lost or canceled."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from app.db.session import Database
from app.runs.repository import BlockRepository, ClaimedBlock

HEARTBEAT_S = 10
LEASE_S = 60
SELF_FENCE_S = 40
"""Without a heartbeat for this long (less than the lease) the holder stops by itself."""

log = structlog.get_logger()


class CancelRequested(Exception):
    """Someone asked for the block to be canceled."""


class LeaseLost(Exception):
    """Another holder may have the block now; nothing more may be written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One claimed block, kept alive by heartbeats on the database's clock."""

    database: Database
    block: ClaimedBlock

    async def hold(self, story: Coroutine[Any, Any, None]) -> None:
        """Run ``story``; raises ``CancelRequested`` or ``LeaseLost`` once the story has stopped and cleaned up."""
        telling = asyncio.create_task(story)
        beating = asyncio.create_task(self._beat())
        try:
            await asyncio.wait({telling, beating}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The story's own cleanup (engine stop) runs inside its cancellation.
            for task in (telling, beating):
                task.cancel()
            await asyncio.gather(telling, beating, return_exceptions=True)
        finished_first = telling if not telling.cancelled() else beating
        finished_first.result()

    async def _beat(self) -> None:
        clock = asyncio.get_running_loop().time
        last_success = clock()
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._beat_once()
                last_success = clock()
            except OSError as error:
                log.warning("heartbeat failed", block=str(self.block.id), error=str(error))
                if clock() - last_success > SELF_FENCE_S:
                    raise LeaseLost from error

    async def _beat_once(self) -> None:
        async with self.database.transaction() as session:
            repository = BlockRepository(session)
            await repository.reap_expired()
            heartbeat = await repository.heartbeat(self.block.id, self.block.fence, LEASE_S)
        if not heartbeat.held:
            raise LeaseLost
        if heartbeat.cancel_requested:
            raise CancelRequested
