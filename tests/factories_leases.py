"""A host with places enough, whose workers claim what is queued."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.accelerators.repository import AcceleratorRepository
from app.leases.repository import Claimant, ClaimedBlock, LeaseRepository, host_of

PLACES = tuple(f"cpu-{number}" for number in range(16))


async def claim_block(session: AsyncSession, worker: str, lease_s: float = 60) -> ClaimedBlock | None:
    """The next block of whatever kind waits, by a worker whose host has 16 accelerators of it."""
    queued = "SELECT accelerator FROM block WHERE state = 'QUEUED' LIMIT 1"
    kind: str | None = (await session.execute(text(queued))).scalar()
    if kind is None:
        return None
    await AcceleratorRepository(session).publish(host_of(worker), dict.fromkeys(PLACES, kind))
    return await LeaseRepository(session).claim(Claimant(worker, kind, PLACES), lease_s)
