"""What every writer shares: the fence, the version that pages follow, and the end of an experiment.

Locks are taken block first, experiment last, by everyone; so writers can wait but never deadlock.
"""

from collections.abc import Mapping
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.base import Json
from app.db.models import BlockRow, ExperimentRow, RunRow, SessionRow
from app.db.notify import Change, publish
from app.domain.errors import DomainError, NotFound
from app.domain.evidence import Failure
from app.domain.lifecycle import (
    BLOCK_MOVES,
    EXPERIMENT_MOVES,
    BlockState,
    ExperimentState,
    is_terminal,
    sources_of,
)
from app.domain.vocabulary import FailureClass

PREFIX_MIN = 12


class Fenced(DomainError):
    """The block's lease was lost to another worker or taken back; the writer must stop at once."""

    title = "The lease was lost"


async def resolve(session: AsyncSession, reference: str) -> str:
    """The full digest of an experiment named by it or by a unique prefix; raises ``NotFound``."""
    query = select(ExperimentRow.digest).where(ExperimentRow.digest.startswith(reference, autoescape=True)).limit(2)
    usable = len(reference) >= PREFIX_MIN and "\x00" not in reference
    found = (await session.scalars(query)).all() if usable else []
    if len(found) == 1:
        return found[0]
    problem = "names more than one experiment" if found else "names no experiment"
    remedy = f"give the digest or a unique prefix of at least {PREFIX_MIN} hex digits"
    raise NotFound.of("experiment", f"{reference[:64]} {problem}", remedy)


async def hold(session: AsyncSession, block: ColumnElement[bool], fence: int) -> str:
    """Lock the block for this transaction and return its experiment; ``Fenced`` unless ``fence`` still leases it."""
    held = select(BlockRow.experiment_id).where(block, BlockRow.fence == fence, BlockRow.state == BlockState.LEASED)
    experiment_id = await session.scalar(held.with_for_update(key_share=True))
    if experiment_id is None:
        raise Fenced.of("fence", f"fence {fence} no longer leases the block", "stop; another attempt owns it")
    return experiment_id


async def hold_session(session: AsyncSession, session_id: UUID, fence: int) -> str:
    """As ``hold``, for the block of a session that was started under the same fence."""
    block_id = await session.scalar(
        select(SessionRow.block_id).where(SessionRow.id == session_id, SessionRow.fence == fence)
    )
    return await hold(session, BlockRow.id == block_id, fence)


async def hold_run(session: AsyncSession, run_id: UUID, fence: int) -> str:
    """As ``hold``, for the block of a run that was started under the same fence."""
    block_id = await session.scalar(
        select(SessionRow.block_id)
        .join(RunRow, RunRow.session_id == SessionRow.id)
        .where(RunRow.id == run_id, RunRow.fence == fence)
    )
    return await hold(session, BlockRow.id == block_id, fence)


async def touch(session: AsyncSession, experiment_id: str) -> None:
    """Raise the experiment's version and tell subscribers after the commit; locks the experiment."""
    version = await session.scalar(
        update(ExperimentRow)
        .where(ExperimentRow.digest == experiment_id)
        .values(version=ExperimentRow.version + 1)
        .returning(ExperimentRow.version)
    )
    if version is not None:
        await publish(session, Change(experiment_id, version))


async def settle(session: AsyncSession, experiment_id: str) -> None:
    """After a block ended: if it was the last, end the experiment too, in the same transaction."""
    await touch(session, experiment_id)  # the lock: of two last blocks, the second sees the first
    why = BlockRow.failure["failure_class"].astext
    found = await session.execute(select(BlockRow.state, why).where(BlockRow.experiment_id == experiment_id).distinct())
    blocks = [(BlockState(state), reason) for state, reason in found]
    if any(not is_terminal(BLOCK_MOVES, state) for state, _ in blocks):
        return
    not_needed = (BlockState.CANCELED, str(FailureClass.NOT_NEEDED))  # by an early stop: the others decide
    ended = {state for state, reason in blocks if (state, reason) != not_needed}
    final = _final_state(ended)
    await session.execute(
        update(ExperimentRow)
        .where(ExperimentRow.digest == experiment_id)
        .where(ExperimentRow.state.in_(sources_of(EXPERIMENT_MOVES, final)))
        .values(state=final, finished_at=func.now())
    )


def _final_state(blocks: set[BlockState]) -> ExperimentState:
    if BlockState.CANCELED in blocks:
        return ExperimentState.CANCELED
    return ExperimentState.FINISHED if BlockState.SUCCEEDED in blocks else ExperimentState.FAILED


def shown() -> ColumnElement[bool]:
    """What counts for the block's newest attempt, and nothing while the block waits for another."""
    return and_(counts(), BlockRow.state.not_in((BlockState.QUEUED, BlockState.LOST)))


def counts() -> ColumnElement[bool]:
    """Sessions that the block's newest attempt started or took over."""
    return func.coalesce(SessionRow.adopted_fence, SessionRow.fence) == BlockRow.fence


def failure_document(failure: Failure | None) -> Json | None:
    """A failure as JSON that Postgres accepts."""
    return None if failure is None else storable(failure.model_dump(mode="json"))


def storable(document: Mapping[str, JsonValue]) -> Json:
    """A document as JSONB, whose texts have no NUL and no lone surrogates: both become the replacement character."""
    return {_clean(key): _cleaned(value) for key, value in document.items()}


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return storable(value)
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _clean(text: str) -> str:
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
