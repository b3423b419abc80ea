"""Which queued block is next: priority, then the owner who had least of the last day, then age.

A block that needs more accelerators than are free is overtaken for a while; then its host is kept free for it.
"""

from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, Select, Subquery, func, or_, select

from app.accelerators.repository import Places
from app.db.models import BlockRow, ExperimentRow
from app.domain.lifecycle import BlockState

SHARE_WINDOW: Final = timedelta(days=1)
OVERTAKEN_FOR: Final = timedelta(minutes=10)


def next_block(kind: str, places: Places) -> Select[BlockRow]:
    """The first block in the queue of ``kind`` that this host's ``places`` can or must serve, locked."""
    used = used_by_owner()
    needed = BlockRow.accelerator_count
    waited = BlockRow.created_at + OVERTAKEN_FOR < func.now()
    return (
        select(BlockRow)
        .join(ExperimentRow, ExperimentRow.digest == BlockRow.experiment_id)
        .outerjoin(used, used.c.owner == ExperimentRow.owner)
        .where(BlockRow.state == BlockState.QUEUED, BlockRow.accelerator == kind)
        .where(func.coalesce(BlockRow.not_before, func.now()) <= func.now())
        .where(needed <= places.usable, or_(needed <= len(places.free), waited))
        .order_by(ExperimentRow.priority.desc(), func.coalesce(used.c.seconds, 0))
        .order_by(ExperimentRow.created_at, BlockRow.experiment_id, BlockRow.index)
        .limit(1)
        .with_for_update(skip_locked=True, of=BlockRow)
    )


def used_by_owner() -> Subquery:
    """Accelerator-seconds of each owner within the window, those of blocks under way included."""
    since = func.now() - SHARE_WINDOW
    ended = func.coalesce(BlockRow.finished_at, func.now())
    seconds = func.extract("epoch", ended - func.greatest(BlockRow.started_at, since)) * BlockRow.accelerator_count
    return (
        select(ExperimentRow.owner, func.sum(seconds).label("seconds"))
        .join(BlockRow, BlockRow.experiment_id == ExperimentRow.digest)
        .where(_has_run(), ended > since)
        .group_by(ExperimentRow.owner)
        .subquery()
    )


def _has_run() -> ColumnElement[bool]:
    return BlockRow.started_at.is_not(None) & (BlockRow.state != BlockState.QUEUED)
