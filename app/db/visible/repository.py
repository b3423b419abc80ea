"""Rows of other projects do not exist for whoever acts for one: a filter on every ORM statement of a session.

So a repository need not think of it and a new query cannot forget it. Statements in plain SQL are not filtered; they
take ids that a filtered one has found.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, event, select
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from app.db.access_models import TraceHolderRow
from app.db.acting import visible_project
from app.db.case_models import CaseIndexRow
from app.db.models import (
    ArtifactRow,
    BlockRow,
    ExperimentRow,
    ImportedResultRow,
    ReportRow,
    RunRow,
    SessionRow,
    TraceRow,
)
from app.db.webhook_models import WebhookRow

_PROJECT: Final = "visible_project"
_OWNED: Final = (ExperimentRow, ImportedResultRow, WebhookRow)


class VisibleSession(Session):
    """A session that sees one project, or all where nobody in particular acts."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.info[_PROJECT] = visible_project()


@event.listens_for(VisibleSession, "do_orm_execute")
def _filter(state: ORMExecuteState) -> None:
    project = state.session.info.get(_PROJECT)
    if project is None or state.is_column_load or state.is_relationship_load:
        return
    if state.is_select:
        criteria = [*_owned(project), *_belonging(project)]
    elif state.is_update or state.is_delete:
        criteria = _owned(project)
    else:
        return
    state.statement = state.statement.options(*criteria)


def _owned(project: str) -> list[Any]:
    return [with_loader_criteria(row, row.project == project, include_aliases=True) for row in _OWNED]


def _belonging(project: str) -> list[Any]:
    """By tables, not by rows: inside of a criterion there must be no other."""
    experiment, block, session, run = (row.__table__ for row in (ExperimentRow, BlockRow, SessionRow, RunRow))
    experiments = select(experiment.c.digest).where(experiment.c.project == project)
    blocks = select(block.c.id).where(block.c.experiment_id.in_(experiments))
    sessions = select(session.c.id).where(session.c.block_id.in_(blocks))
    runs = select(run.c.id).where(run.c.session_id.in_(sessions))
    holder = TraceHolderRow.__table__
    held = select(holder.c.trace).where(holder.c.project == project)
    rows: list[tuple[Any, ColumnElement[bool]]] = [
        (TraceRow, TraceRow.digest.in_(held)),
        (BlockRow, BlockRow.experiment_id.in_(experiments)),
        (SessionRow, SessionRow.block_id.in_(blocks)),
        (RunRow, RunRow.session_id.in_(sessions)),
        (ReportRow, ReportRow.experiment.in_(experiments)),
        (CaseIndexRow, CaseIndexRow.experiment.in_(experiments)),
        (ArtifactRow, ArtifactRow.session_id.in_(sessions) | ArtifactRow.run_id.in_(runs)),
    ]
    return [with_loader_criteria(row, criterion, include_aliases=True) for row, criterion in rows]
