"""Answers kept for requests that are sent again, in Postgres, so that any web process can give them."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.delivery_models import AnswerRow

TRIES = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """One request under a key of whoever asks; ``fingerprint`` tells it from others."""

    who: str
    key: str
    fingerprint: bytes
    keep_body: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered; ``status`` is ``None`` while it is under way, ``body`` where it is not kept."""

    fingerprint: bytes
    status: int | None
    headers: dict[str, str]
    body: bytes | None


class AnswerRepository:
    """Inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def claim(self, claim: Claim, keep_hours: float, under_way_s: float) -> Answer | None:
        """Take the key; ``None`` if it was free, expired, or left by a request that died. Else what is there."""
        await self._session.execute(delete(AnswerRow).where(AnswerRow.expires_at < func.now()))
        for _ in range(TRIES):
            if await self._take(claim, keep_hours, under_way_s):
                return None
            row = await self._session.scalar(select(AnswerRow).where(*_key_of(claim)))
            if row is not None:
                headers = {name: str(value) for name, value in row.headers.items()}
                return Answer(row.fingerprint, row.status, headers, row.body)
            # It was given free between the two.
        return Answer(claim.fingerprint, None, {}, None)

    async def _take(self, claim: Claim, keep_hours: float, under_way_s: float) -> bool:
        values = {
            "fingerprint": claim.fingerprint,
            "status": None,
            "headers": {},
            "body": None,
            "claimed_at": func.now(),
            "expires_at": func.now() + timedelta(hours=keep_hours),
        }
        died = and_(AnswerRow.status.is_(None), AnswerRow.claimed_at < func.now() - timedelta(seconds=under_way_s))
        taking = insert(AnswerRow).values(who=claim.who, key=claim.key, **values)
        taking = taking.on_conflict_do_update(
            index_elements=[AnswerRow.who, AnswerRow.key],
            set_=values,
            where=or_(died, AnswerRow.expires_at < func.now()),
        ).returning(AnswerRow.key)
        return (await self._session.execute(taking)).first() is not None

    async def keep(self, claim: Claim, answer: Answer) -> None:
        """Store what was answered."""
        values = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        await self._session.execute(update(AnswerRow).where(*_of(claim)).values(values))

    async def release(self, claim: Claim) -> None:
        """Forget the key: nothing was done under it."""
        await self._session.execute(delete(AnswerRow).where(*_of(claim), AnswerRow.status.is_(None)))


def _key_of(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    return AnswerRow.who == claim.who, AnswerRow.key == claim.key


def _of(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    return *_key_of(claim), AnswerRow.fingerprint == claim.fingerprint
