"""Server-sent events of one experiment: its version now, then each version it reaches. Pages refetch what they show.

Between them come live values of the run under way, which are unaudited and stored nowhere.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

from app.access.service import AccessService
from app.db.acting import actor
from app.db.notify import Change, Live, subscribe
from app.db.session import Database
from app.domain.access import Principal
from app.errors import TooManyStreams
from app.experiments.repository import ExperimentRepository

STREAM_S = 600
STREAMS_MAX = 32
LOOK_AGAIN_S = 3
"""For at most this long a stream outlives the credential that opened it."""
OF_ONE_CLIENT_MAX = 12
"""Twice what one browser opens to a host; pages in the background have none."""
KINDS = frozenset({"live", "log"})

Event = dict[str, str]


class Streams:
    """The streams that this process serves; each holds one connection to Postgres, so they are few."""

    def __init__(
        self,
        database: Database,
        *,
        limit: int = STREAMS_MAX,
        of_one_client: int = OF_ONE_CLIENT_MAX,
        stream_s: float = STREAM_S,
        look_again_s: float = LOOK_AGAIN_S,
    ) -> None:
        self._database, self._stream_s = database, stream_s
        self._limit, self._of_one_client, self._look_again_s = limit, of_one_client, look_again_s
        # a stream leaves it however it ends, even if it never began
        self._open: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    @property
    def open(self) -> int:
        """How many are served now."""
        return len(self._open)

    def follow(self, digest: str, client: str = "") -> AsyncIterator[Event]:
        """``change`` events for ``stream_s`` seconds, then one ``reconnect``; raises ``TooManyStreams``.

        ``live`` and ``log`` events come while a worker sends them. ``client`` is who asks.
        """
        if len(self._open) >= self._limit:
            raise TooManyStreams.of("(stream)", "every stream is in use", "close a page, or poll the experiment")
        if Counter(self._open.values())[client] >= self._of_one_client:
            remedy = "close a page, or poll the experiment"
            raise TooManyStreams.of("(stream)", f"{self._of_one_client} streams of one client are in use", remedy)
        stream = self._events(digest, actor())
        self._open[stream] = client
        return stream

    async def _events(self, digest: str, principal: Principal) -> AsyncIterator[Event]:
        access, looked_at_s = AccessService(self._database), time.monotonic()
        async with subscribe(self._database.url, self._stream_s, live_of=digest) as heard:
            async with self._database.reader() as session:  # after LISTEN, so that no change falls between
                version = await ExperimentRepository(session).version(digest)
            yield _event(Change(digest, version))
            async for message in heard:
                if time.monotonic() - looked_at_s > self._look_again_s:
                    if not await access.still_valid(principal):
                        return  # revoked or logged out: nothing more is told
                    looked_at_s = time.monotonic()
                if isinstance(message, Live):
                    if message.kind in KINDS:
                        yield {"event": message.kind, "data": message.body}
                elif message.experiment == digest:
                    yield _event(message)
        yield {"event": "reconnect", "data": "{}"}


def _event(change: Change) -> Event:
    return {"event": "change", "data": json.dumps(asdict(change))}
