"""The reports used last, and who computes one at present."""

import asyncio
from asyncio import Lock, Semaphore, Task
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from app.domain.report import Report

REPORTS_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class KnownReport:
    """A report and its canonical JSON."""

    report: Report
    document: bytes


class ReportCache:
    """Reports in memory before those in Postgres; what pages have begun goes on when they no longer wait for it."""

    def __init__(self, kept: int = REPORTS_KEPT) -> None:
        self._kept = kept
        self._reports: OrderedDict[str, KnownReport] = OrderedDict()
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()
        self._begun: dict[str, Task[KnownReport]] = {}
        self._one_at_a_time = Semaphore(1)

    def turn(self, key: str) -> Lock:
        """Whoever holds it may look for the report in Postgres or compute it; the others wait for the result."""
        return self._turns.setdefault(key, Lock())

    def get(self, key: str) -> KnownReport | None:
        """The report of that key, if it is still here."""
        if key in self._reports:
            self._reports.move_to_end(key)
        return self._reports.get(key)

    def put(self, key: str, report: KnownReport) -> None:
        """Keep a report and forget the one unused longest."""
        self._reports[key] = report
        while len(self._reports) > self._kept:
            self._reports.popitem(last=False)

    async def within(
        self, key: str, patience_s: float, compute: Callable[[], Coroutine[Any, Any, KnownReport]]
    ) -> KnownReport | None:
        """The report if it is there in time; otherwise its computing goes on, once, whoever asks again.

        A failed computing is told to whoever waits next, and then begun anew.
        """
        if (known := self.get(key)) is not None:
            return known
        begun = self._begun.get(key)
        if begun is None:
            begun = self._begun[key] = asyncio.create_task(self._in_turn(compute))
        done, _ = await asyncio.wait({begun}, timeout=patience_s)
        if not done:
            return None
        self._begun.pop(key, None)
        return begun.result()

    async def _in_turn(self, compute: Callable[[], Coroutine[Any, Any, KnownReport]]) -> KnownReport:
        """One for all pages: each holds a connection while it computes, and a list of experiments asks for many."""
        async with self._one_at_a_time:
            return await compute()

    async def close(self) -> None:
        """Give up what is under way."""
        left = [*self._begun.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
