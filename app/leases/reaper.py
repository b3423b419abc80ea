"""The web process takes expired leases back too, so that no block hangs on a worker that is gone.

Workers do it whenever they look for blocks; this is for the time when none is left to look.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.db.session import Database
from app.domain.lifecycle import BlockState
from app.leases.reaping.repository import Reaped, ReapingRepository
from app.queue import wake
from app.settings import Settings

PERIOD_S: Final = 15.0

log = structlog.stdlib.get_logger()


@asynccontextmanager
async def reaping(database: Database, settings: Settings, *, period_s: float = PERIOD_S) -> AsyncGenerator[None]:
    """Reap every ``period_s`` while the context is entered."""
    task = asyncio.create_task(_forever(database, settings, period_s), name="reaper")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def reap_once(database: Database, settings: Settings) -> list[Reaped]:
    """Take back what has expired, say so, and wake the workers; a database that is away is only said."""
    try:
        async with database.transaction() as session:
            reaped = await ReapingRepository(session).reap()
    except (SQLAlchemyError, OSError) as error:
        log.warning("expired leases could not be looked for; the next look is soon", error=str(error).split("\n", 1)[0])
        return []
    for lease in reaped:
        told = {"experiment": lease.experiment_id, "block": lease.block, "worker": lease.worker}
        log.warning("expired lease taken back", **told, now=lease.state)
    for kind in sorted({lease.accelerator for lease in reaped if lease.state is BlockState.QUEUED}):
        await asyncio.to_thread(wake, settings, kind)
    return reaped


async def _forever(database: Database, settings: Settings, period_s: float) -> None:
    while True:
        await asyncio.sleep(period_s)
        try:
            await reap_once(database, settings)
        except Exception:  # the boundary of a task that nobody waits for: recorded, and tried again
            log.exception("reaping failed")
