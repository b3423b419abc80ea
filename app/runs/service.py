"""Reads sessions and runs."""

from uuid import UUID

from app.db.repository import resolve
from app.db.session import Database
from app.runs.schemas import RunRead, SessionRead
from app.runs.views.repository import RunViews


class RunService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sessions(self, reference: str) -> list[SessionRead]:
        """The sessions that count, of an experiment named by digest or prefix; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await RunViews(session).sessions(await resolve(session, reference))

    async def session(self, session_id: UUID) -> SessionRead:
        """One session; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await RunViews(session).session(session_id)

    async def runs(self, reference: str) -> list[RunRead]:
        """The runs that count, of an experiment named by digest or prefix; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await RunViews(session).runs(await resolve(session, reference))

    async def run(self, run_id: UUID) -> RunRead:
        """One run; raises ``NotFound``."""
        async with self._database.reader() as session:
            return await RunViews(session).run(run_id)
