"""Whose an experiment is, and how many unfinished ones its project has."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.access_models import TraceHolderRow
from app.db.models import ExperimentRow, TraceRow
from app.domain.lifecycle import EXPERIMENT_MOVES, ExperimentState, is_terminal

_UNFINISHED = tuple(state for state in ExperimentState if not is_terminal(EXPERIMENT_MOVES, state))


class Standing(NamedTuple):
    """``here``: whether whoever acts may see the experiment."""

    unfinished: int
    here: bool


async def standing(session: AsyncSession, project: str, digest: str) -> Standing:
    """Of a project and an experiment; experiments that are not visible are as if they were not there."""
    count = select(func.count()).where(ExperimentRow.project == project, ExperimentRow.state.in_(_UNFINISHED))
    unfinished = (await session.scalars(count)).one()
    here = await session.scalar(select(ExperimentRow.digest).where(ExperimentRow.digest == digest))
    return Standing(unfinished, here is not None)


async def share_traces(session: AsyncSession, project: str, digests: Collection[str]) -> None:
    """Let a project see stored traces; only for whoever may see them all."""
    known = select(literal(project), TraceRow.digest).where(TraceRow.digest.in_(digests))
    held = insert(TraceHolderRow).from_select(["project", "trace"], known)
    await session.execute(held.on_conflict_do_nothing())
