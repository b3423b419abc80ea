"""What past sessions of the same runtime and target took, for the cost estimate."""

from sqlalchemy import Float, Subquery, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import BlockRow, ExperimentRow, RunRow, SessionRow
from app.domain.estimate import CPU_MODEL, SessionTimes
from app.domain.lifecycle import RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.vocabulary import NS_PER_S

SESSIONS_MAX = 200


class PastRepository:
    """Reads inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def sessions(self, manifest: Manifest) -> list[SessionTimes]:
        """The newest sessions that ended well, of any experiment with this manifest's runtime and target."""
        runs, startup_s = _runs(), cast(SessionRow.startup_ns, Float) / NS_PER_S
        wall_s = func.extract("epoch", SessionRow.finished_at - SessionRow.started_at)
        document = ExperimentRow.manifest
        query = (
            select(startup_s, wall_s, runs.c.wall_s, runs.c.runs)
            .join(runs, runs.c.session_id == SessionRow.id)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
            .where(SessionRow.state == SessionState.SUCCEEDED, SessionRow.startup_ns.is_not(None))
            .where(document["runtime"].astext == manifest.runtime)
            .where(document["target_model"].astext == manifest.target_model)
            .order_by(SessionRow.started_at.desc())
            .limit(SESSIONS_MAX)
        )
        return [_times(*map(float, row)) for row in (await self._session.execute(query)).all()]


def _runs() -> Subquery:
    wall_s = func.sum(func.extract("epoch", RunRow.finished_at - RunRow.started_at))
    return (
        select(RunRow.session_id, wall_s.label("wall_s"), func.count().label("runs"))
        .where(RunRow.state == RunState.SUCCEEDED)
        .group_by(RunRow.session_id)
        .subquery()
    )


def _times(startup_s: float, wall_s: float, runs_s: float, runs: float) -> SessionTimes:
    """A recorded run holds its replay and what is spent around it; the estimate counts the two apart."""
    replay_s = max(0.0, runs_s - runs * CPU_MODEL.run_overhead_s)
    return SessionTimes(startup_s=startup_s, wall_s=wall_s, replay_s=replay_s, runs=int(runs))
