"""One replay in a client process of its own."""

from pathlib import Path

from worker.replay.plan import ReplayPlan
from worker.replay.process import ReplayClient, ReplayRecord


async def replay(plan: ReplayPlan, directory: Path) -> ReplayRecord:
    """Replay ``plan`` and leave no process behind."""
    async with ReplayClient() as client:
        return await client.replay(plan, directory)
