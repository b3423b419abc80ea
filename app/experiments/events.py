"""Server-sent events of one experiment: its version now, then each version it reaches. Pages refetch what they show."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from weakref import WeakSet

from app.db.notify import Change, subscribe
from app.db.session import Database
from app.errors import TooManyStreams
from app.experiments.repository import ExperimentRepository

STREAM_S = 600
STREAMS_MAX = 32

Event = dict[str, str]


class Streams:
    """The streams that this process serves; each holds one connection to Postgres, so they are few."""

    def __init__(self, database: Database, *, limit: int = STREAMS_MAX, stream_s: float = STREAM_S) -> None:
        self._database, self._limit, self._stream_s = database, limit, stream_s
        self._open: WeakSet[Any] = WeakSet()  # a stream leaves it however it ends, even if it never began

    @property
    def open(self) -> int:
        """How many are served now."""
        return len(self._open)

    def follow(self, digest: str) -> AsyncIterator[Event]:
        """``change`` events for ``stream_s`` seconds, then one ``reconnect``; raises ``TooManyStreams``."""
        if len(self._open) >= self._limit:
            raise TooManyStreams.of("(stream)", "every stream is in use", "close a page, or poll the experiment")
        stream = self._events(digest)
        self._open.add(stream)
        return stream

    async def _events(self, digest: str) -> AsyncIterator[Event]:
        async with subscribe(self._database.url, self._stream_s) as heard:
            async with self._database.reader() as session:  # after LISTEN, so that no change falls between
                version = await ExperimentRepository(session).version(digest)
            yield _event(Change(digest, version))
            async for change in heard:
                if change.experiment == digest:
                    yield _event(change)
        yield {"event": "reconnect", "data": "{}"}


def _event(change: Change) -> Event:
    return {"event": "change", "data": json.dumps(asdict(change))}
