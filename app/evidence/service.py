"""Takes traces in and reads evidence back, session logs included."""

import re
from pathlib import Path
from uuid import UUID

from anyio import to_thread

from app.db.session import Database
from app.domain.errors import NotFound
from app.domain.trace import Trace, parse_trace
from app.evidence.repository import EvidenceRepository
from app.evidence.schemas import CapabilityRead, ObservationPage, SeriesRead, TraceRead
from app.evidence.views.repository import EvidenceViews
from app.intake import decode_json
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

    async def add_trace(self, content: bytes) -> tuple[TraceRead, bool]:
        """Keep a trace and say whether it is new. Raises ``TraceRefused`` or ``DocumentRefused``."""
        trace = await to_thread.run_sync(_parse, content)
        async with self._database.transaction() as session:
            created = await EvidenceRepository(session).store_trace(trace)
            return await EvidenceViews(session).trace(trace.digest), created

    async def traces(self) -> list[TraceRead]:
        """Every trace, newest first."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).traces()

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

    async def series(self, run_id: UUID) -> list[SeriesRead]:
        """A run's scraped metrics; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).series(run_id)

    async def capabilities(self) -> list[CapabilityRead]:
        """What each worker published last."""
        async with self._database.reader() as session:
            return await EvidenceViews(session).capabilities()

    async def log(self, session_id: UUID) -> str:
        """The end of a session's log, without control characters; raises ``NotFound``."""
        async with self._database.reader() as session:
            logs = await EvidenceViews(session).logs(session_id)
        root = self._settings.artifact_root.resolve()
        paths = [(root / log.path).resolve() for log in logs]
        path = next((p for p in paths if p.is_relative_to(root) and p.is_file()), None)
        if path is None:
            raise NotFound.of("log", f"session {session_id} has no log here", "look on the worker's host")
        return await to_thread.run_sync(_printable_tail, path)


def _parse(content: bytes) -> Trace:
    """Each line must be strict JSON before the domain reads it: no key twice, nothing that cannot be stored."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            decode_json(line, f"line {number}")
    return parse_trace(content)


def _printable_tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_MAX))
        return _CONTROL.sub("", file.read().decode("utf-8", "replace"))
