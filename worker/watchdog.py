"""Watches while an engine is measured: no progress while requests run, a flood in its log, a disk nearly full.

``/health`` answers 200 while the engine core is frozen, so only its counters say whether it works.
"""

import asyncio
import re
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from app.domain.evidence import Failure
from app.domain.vocabulary import FailureClass
from app.settings import Settings

PERIOD_S = 1.0
_PROGRESS = re.compile(
    r"^vllm:(?:prompt_tokens_total|generation_tokens_total|iteration_tokens_total_count|request_success_total)"
    r"(?:\{[^}]*\})? (\S+)$",
    re.MULTILINE,
)
_BUSY = re.compile(r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)

T = TypeVar("T")


class WatchdogAlarm(Exception):
    """What was watched had to be stopped."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Limits:
    """When to give an engine up. ``home`` is on the disk that must not run full."""

    hang_timeout_s: float
    free_bytes_min: int
    log_bytes_max: int
    home: Path

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The operator's limits."""
        return cls(settings.hang_timeout_s, settings.free_bytes_min, settings.engine_log_bytes_max, settings.home)


class Watch:
    """One look each second. ``exposed`` is the newest text of ``/metrics``; ``flood`` judges the log."""

    def __init__(self, limits: Limits, exposed: Callable[[], str | None], flood: Callable[[], str | None]) -> None:
        self._limits = limits
        self._exposed = exposed
        self._flood = flood
        self._seen: tuple[str, ...] = ()
        self._since = time.monotonic()

    def alarm(self) -> Failure | None:
        """Why the engine must be stopped now."""
        if flood := self._flood():
            return Failure(failure_class=FailureClass.ENGINE_DEAD, message=flood)
        free = shutil.disk_usage(self._limits.home).free
        if free < self._limits.free_bytes_min / 2:  # no block was begun below the whole of it
            message = f"the disk is nearly full: {free / 1024**2:.0f} MiB are free"
            return Failure(failure_class=FailureClass.INFRA, message=message)
        return self._frozen()

    def _frozen(self) -> Failure | None:
        text = self._exposed() or ""
        busy = sum(map(float, _BUSY.findall(text)))
        progress = tuple(_PROGRESS.findall(text))
        if not busy or progress != self._seen:
            self._seen, self._since = progress, time.monotonic()
            return None
        still_s = time.monotonic() - self._since
        if still_s <= self._limits.hang_timeout_s:
            return None
        message = f"{busy:.0f} requests were in the engine and its counters stood still for {still_s:.0f} s"
        return Failure(failure_class=FailureClass.HANG, message=message)


async def under_watch(work: Coroutine[Any, Any, T], watch: Watch) -> T:
    """Do ``work``; raises ``WatchdogAlarm`` after stopping it where the watch has cause to."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=PERIOD_S)
            if not task.done() and (failure := watch.alarm()):
                raise WatchdogAlarm(failure)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
