"""The audit log: written in the transaction of what it records, so that there is neither without the other."""

from pydantic import JsonValue
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.access.schemas import AuditPage, AuditRead
from app.db.access_models import AuditRow
from app.db.acting import actor
from app.db.repository import storable


async def record(session: AsyncSession, action: str, target: str, **detail: JsonValue) -> None:
    """Whoever acts did ``action`` to ``target``; never a secret, a prompt or a password among the details."""
    who = actor()
    session.add(AuditRow(actor=who.actor, project=who.project, action=action, target=target, detail=storable(detail)))
    await session.flush()


async def page(session: AsyncSession, before: int | None, limit: int) -> AuditPage:
    """Newest first, those before the event ``before``."""
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit + 1)
    rows = (await session.scalars(query if before is None else query.where(AuditRow.id < before))).all()
    items = [_read(row) for row in rows[:limit]]
    return AuditPage(items=items, next_cursor=items[-1].id if len(rows) > limit else None)


def _read(row: AuditRow) -> AuditRead:
    return AuditRead.model_validate({name: getattr(row, name) for name in AuditRead.model_fields})
