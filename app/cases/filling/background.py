"""Takes cases from complete blocks when somebody looks: once, however many look, and on when they look no longer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Fillings:
    """What is under way in this process; one experiment after the other."""

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Semaphore(1)

    async def within(self, experiment: str, patience_s: float, fill: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin, unless it is under way, and wait so long. A failure is told to whoever waits, then begun anew."""
        begun = self._begun.get(experiment)
        if begun is None:
            begun = self._begun[experiment] = asyncio.create_task(self._in_turn(fill))
        done, _ = await asyncio.wait({begun}, timeout=patience_s)
        if done:
            self._begun.pop(experiment, None)
            begun.result()

    async def _in_turn(self, fill: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._one_at_a_time:
            await fill()

    async def close(self) -> None:
        """Give up what is under way; whole blocks stay."""
        left = [*self._begun.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
