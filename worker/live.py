"""Tells pages, about once a second, what a session does: from what the worker holds already, kept nowhere.

The scrapes of the run, the end of the sampler's file and the end of the engine's log are read; neither the engine nor
the client is asked for anything. A database that is away, or whatever goes wrong here, costs the picture only.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
import structlog

from app.db.notify import LIVE_BYTES_MAX, Live, LiveSender
from app.domain.live import (
    DEVICES_MAX,
    Following,
    LiveDevice,
    LiveLog,
    LivePicture,
    LiveRun,
    cores_in_use,
    last_lines,
    read_gauges,
)
from app.domain.series import DEVICE_MEMORY, ENGINE_CPU, ENGINE_RSS, POWER, TEMPERATURE, UTILIZATION
from app.domain.vocabulary import NS_PER_S
from worker.engine import log_lines
from worker.engine.scrape import Scrape
from worker.telemetry.newest import Newest, Value

log = structlog.get_logger()

PERIOD_S: Final = 1.0
LOG_REPEATED: Final = 3
"""A log that stands still is told again after so many pictures, for pages that were opened since."""
LOG_READ_BYTES: Final = 16 * 1024
LOG_LINES: Final = 40
LOG_WIDTH: Final = 300
LOG_SIZE: Final = 6000


@dataclass(frozen=True, slots=True)
class LiveSource:
    """What a session has: where its log and its sampler's file are."""

    block: int
    arm: str
    log_path: Path
    telemetry_path: Path


@dataclass(slots=True)
class LiveFeed:
    """An asynchronous context manager around a session; without a ``sender`` it does nothing."""

    source: LiveSource
    sender: LiveSender | None
    _scrapes: list[Scrape] = field(default_factory=list[Scrape])
    _following: Following | None = None
    _run: LiveRun | None = None
    _read: int = 0
    _cpu: tuple[float, float] | None = None
    _told: tuple[str, ...] = ()
    _until_log: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self.sender is not None:
            self._task = asyncio.create_task(self._tell(self.sender))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is None or self.sender is None:
            return
        self._task.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        if not isinstance(ended, asyncio.CancelledError):
            log.warning("no live values were sent from then on", error=f"{type(ended).__name__}: {ended}"[:200])
        with suppress(psycopg.Error, OSError):
            await self.sender.close()

    @contextmanager
    def run(self, following: Following, scrapes: list[Scrape]) -> Generator[None]:
        """While a replay is under way, whose ``scrapes`` grow."""
        self._following, self._scrapes, self._read = following, scrapes, 0
        try:
            yield
        finally:
            self._following = self._run = None

    def scraped(self) -> None:
        """There is a newer scrape: told now and not with the next second."""
        self._news.set()

    def messages(self, newest: Newest) -> list[Live]:
        """The picture as of now, and the end of the log where a page may lack it."""
        picture, end = Live("live", _fitting(self._picture(newest))), self._log()
        return [picture] if end is None else [picture, Live("log", _fitting_log(end))]

    async def _tell(self, sender: LiveSender) -> None:
        newest = Newest(self.source.telemetry_path)
        while True:
            try:
                async with asyncio.timeout(PERIOD_S * 5):
                    for message in self.messages(newest):
                        await sender.send(message)
            except (psycopg.Error, OSError) as away:  # of which a timeout is one
                log.debug("live values were not sent", error=str(away)[:200])
            self._news.clear()
            with suppress(TimeoutError):
                # A replay is scraped each second, and its scrapes are what there is to tell.
                await asyncio.wait_for(self._news.wait(), PERIOD_S * (1.5 if self._following else 1))

    def _picture(self, newest: Newest) -> LivePicture:
        values = newest.read()
        rss, cores = values.get((None, ENGINE_RSS)), self._cores(values.get((None, ENGINE_CPU)))
        return LivePicture(
            block=self.source.block,
            arm=self.source.arm,
            at=datetime.now(UTC),
            run=self._run_now(),
            devices=_devices(values),
            engine_rss_bytes=None if rss is None else rss.value,
            engine_cores=cores,
        )

    def _run_now(self) -> LiveRun | None:
        """The run with the scrapes that came since; the one before the first of them is where counting starts."""
        if self._following is not None:
            for one in self._scrapes[self._read :]:
                self._run = self._following.add(read_gauges(one.monotonic_ns, one.text))
                self._read += 1
        return self._run

    def _cores(self, cpu: Value | None) -> float | None:
        before, self._cpu = self._cpu, None if cpu is None else (cpu.at_ns / NS_PER_S, cpu.value)
        return cores_in_use(before, self._cpu)

    def _log(self) -> LiveLog | None:
        """The end of the log where it has grown, and now and then where it has not."""
        lines = _end_of(self.source.log_path)
        if lines == self._told and self._until_log > 0:
            self._until_log -= 1
            return None
        self._told, self._until_log = lines, LOG_REPEATED
        return LiveLog(block=self.source.block, arm=self.source.arm, lines=lines)


def _end_of(path: Path) -> tuple[str, ...]:
    """Redacted whole lines. The first that was read may be half a one, in which half a secret would be shown."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - LOG_READ_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ()
    whole = text if size <= LOG_READ_BYTES else text.partition("\n")[2]
    return last_lines(log_lines.redact(whole), count=LOG_LINES, width=LOG_WIDTH, size=LOG_SIZE)


def _fitting(picture: LivePicture) -> str:
    """As JSON that one notification holds; the history is what can be done without."""
    document = picture.model_dump_json()
    if len(document.encode()) <= LIVE_BYTES_MAX or picture.run is None:
        return document
    return picture.model_copy(update={"run": picture.run.model_copy(update={"history": ()})}).model_dump_json()


def _fitting_log(end: LiveLog) -> str:
    """As JSON that one notification holds: strange characters take more room there, so lines may have to go."""
    while len((document := end.model_dump_json()).encode()) > LIVE_BYTES_MAX:
        end = end.model_copy(update={"lines": end.lines[1 + len(end.lines) // 4 :]})
    return document


def _devices(values: dict[tuple[str | None, str], Value]) -> tuple[LiveDevice, ...]:
    names = sorted({device for device, _ in values if device is not None})[:DEVICES_MAX]

    def of(device: str, name: str) -> float | None:
        found = values.get((device, name))
        return None if found is None else found.value

    return tuple(
        LiveDevice(
            name=device,
            utilization_perc=of(device, UTILIZATION),
            memory_used_bytes=of(device, DEVICE_MEMORY),
            power_w=of(device, POWER),
            temperature_c=of(device, TEMPERATURE),
        )
        for device in names
    )
