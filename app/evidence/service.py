"""Takes traces in and reads evidence back, session logs included."""

import re
from collections.abc import Sequence
from uuid import UUID

import zstandard
from anyio import to_thread

from app.artifacts.store import ArtifactStore
from app.db.session import Database
from app.domain.errors import NotFound, TraceRefused
from app.domain.series import Series
from app.domain.timeline import Track, timeline
from app.domain.trace import TraceRequest
from app.domain.trace_scan import summarise
from app.domain.trace_summary import TraceSummary
from app.evidence.packing import PackedTrace, in_chunks, pack_trace, unpack_lines, unpack_upload
from app.evidence.repository import EvidenceRepository
from app.evidence.schemas import ArtifactRead, CapabilityRead, ObservationPage, TraceRead
from app.evidence.views.repository import EvidenceViews
from app.settings import Settings

LOG_MAX = 4 << 20
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class EvidenceService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    async def add_trace(self, content: bytes, *, compressed: bool = False) -> tuple[TraceRead, bool]:
        """Keep a trace (JSON Lines, or those under zstd) and say whether it is new.

        Raises ``TraceRefused``, or ``PayloadTooLarge`` for what unpacks to too much.
        """
        trace = await to_thread.run_sync(_pack, content, compressed)
        async with self._database.transaction() as session:
            created = await EvidenceRepository(session).store_packed(trace)
            return await EvidenceViews(session).trace(trace.summary.digest), created

    async def store(self, trace: PackedTrace) -> bool:
        """Keep a trace that was packed here; ``False`` if it was already there."""
        async with self._database.transaction() as session:
            return await EvidenceRepository(session).store_packed(trace)

    async def summary(self, prefix: str) -> TraceSummary:
        """A stored trace in numbers, by its digest or the first digits of it; raises ``NotFound``."""
        async with self._database.reader() as session:
            views = EvidenceViews(session)
            digest = await views.trace_digest(prefix)
            known = await views.trace_summary(digest)
        return known or await self._counted(digest)

    async def first_requests(self, digest: str, count: int) -> list[TraceRequest]:
        """The first requests of a stored trace; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).first_requests(digest, count)

    async def _counted(self, digest: str) -> TraceSummary:
        """Of a trace that was stored before summaries were: its lines are read again."""
        async with self._database.reader() as session:
            stored = await EvidenceRepository(session).open_trace(digest)
        return await to_thread.run_sync(lambda: summarise(unpack_lines(stored.body)))

    async def traces(self) -> list[TraceRead]:
        """Every trace, newest first."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).traces()

    async def trace_page(self, cursor: str | None, limit: int) -> tuple[list[TraceRead], str | None]:
        """As many, newest first, and the cursor of what follows."""
        async with self._database.reader() as session:
            found = await EvidenceViews(session).trace_page(cursor, limit + 1)
        return found[:limit], found[limit - 1].digest if len(found) > limit else None

    async def trace(self, digest: str) -> TraceRead:
        """One trace; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).trace(digest)

    async def observations(self, run_id: UUID, cursor: str, limit: int) -> ObservationPage:
        """A page of a run's observations; raises ``NotFound``."""
        async with self._database.reader() as session:
            found = await EvidenceViews(session).observations(run_id, cursor, limit + 1)
        items = found[:limit]
        return ObservationPage(items=items, next_cursor=items[-1].request_id if len(found) > limit else None)

    async def series(self, run_id: UUID) -> list[Series]:
        """What was sampled during a run; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).series(run_id)

    async def timeline(self, run_id: UUID) -> tuple[Track, ...]:
        """A run on one clock; raises ``NotFound``."""
        async with self._database.reader() as session:
            views = EvidenceViews(session)
            series, spans = await views.series(run_id), await views.spans(run_id)
        return timeline(spans, series)

    async def capabilities(self) -> list[CapabilityRead]:
        """What each worker published last."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).capabilities()

    async def log(self, session_id: UUID) -> str:
        """The end of a session's log, without control characters; raises ``NotFound``."""
        async with self._database.reader() as session:
            logs = await EvidenceViews(session).logs(session_id)
        return await to_thread.run_sync(self._newest_log, session_id, logs)

    def _newest_log(self, session_id: UUID, logs: Sequence[ArtifactRead]) -> str:
        store = ArtifactStore(self._settings.artifacts)
        here = next((log for log in logs if store.has(log.sha256)), None)
        if here is None:
            remedy = "look on the worker's host, or share the store of artifacts: VERDRAFT_ARTIFACT_URL"
            raise NotFound.of("log", f"session {session_id} has no log here", remedy)
        return _CONTROL.sub("", store.tail(here.sha256, LOG_MAX).decode("utf-8", "replace"))


def _pack(content: bytes, compressed: bool) -> PackedTrace:  # noqa: FBT001  (called through a thread, by position)
    try:
        return pack_trace(unpack_upload(content) if compressed else in_chunks(content))
    except zstandard.ZstdError as error:
        raise TraceRefused.of("(body)", f"not readable as zstd: {error}", "send one zstd file of JSON Lines") from error
