"""Sessions and runs of the attempt that counts, read for pages and the API."""

from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, RunRow, SessionRow
from app.db.repository import shown
from app.domain.errors import NotFound
from app.runs.schemas import RunRead, SessionRead


class RunViews:
    """Reads; inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def sessions(self, experiment_id: str) -> list[SessionRead]:
        """In block order, then in the order they ran."""
        query = _SESSIONS.where(BlockRow.experiment_id == experiment_id, shown())
        return await self._sessions(query.order_by(BlockRow.index, SessionRow.position))

    async def session(self, session_id: UUID) -> SessionRead:
        """One session, of any attempt; raises ``NotFound``."""
        found = await self._sessions(_SESSIONS.where(SessionRow.id == session_id))
        if not found:
            raise NotFound.of("session", f"there is no session {session_id}", "list the experiment's sessions")
        return found[0]

    async def runs(self, experiment_id: str) -> list[RunRead]:
        """In block order, then in the order they ran."""
        order = (BlockRow.index, SessionRow.position, RunRow.started_at)
        return await self._runs(_RUNS.where(BlockRow.experiment_id == experiment_id, shown()).order_by(*order))

    async def run(self, run_id: UUID) -> RunRead:
        """One run, of any attempt; raises ``NotFound``."""
        found = await self._runs(_RUNS.where(RunRow.id == run_id))
        if not found:
            raise NotFound.of("run", f"there is no run {run_id}", "list the experiment's runs")
        return found[0]

    async def _sessions(self, query: Select[SessionRow, str, int]) -> list[SessionRead]:
        rows = (await self._session.execute(query)).all()
        return [SessionRead.model_validate(_fields(SessionRead, row, experiment=e, block=b)) for row, e, b in rows]

    async def _runs(self, query: Select[RunRow, str, str, int]) -> list[RunRead]:
        rows = (await self._session.execute(query)).all()
        return [RunRead.model_validate(_fields(RunRead, row, arm=a, experiment=e, block=b)) for row, a, e, b in rows]


_SESSIONS = select(SessionRow, BlockRow.experiment_id, BlockRow.index).join(
    BlockRow, BlockRow.id == SessionRow.block_id
)
_RUNS = (
    select(RunRow, SessionRow.arm, BlockRow.experiment_id, BlockRow.index)
    .join(SessionRow, SessionRow.id == RunRow.session_id)
    .join(BlockRow, BlockRow.id == SessionRow.block_id)
)


def _fields(read: type[BaseModel], row: SessionRow | RunRow, **joined: str | int) -> dict[str, Any]:
    own = {name: getattr(row, name) for name in read.model_fields if name not in joined}
    return {**own, **joined}
