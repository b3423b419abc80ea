"""Rows that go together, and files and partitions that no row refers to any more."""

from collections.abc import Collection

from sqlalchemy import delete, select, union
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import ArtifactRow, BlockRow, ExperimentRow, RunRow, SessionRow
from app.db.partitions import DIGITS, drop_partitions, hold_partitions, partition_stems
from app.domain.lifecycle import ExperimentState


class RetentionRepository:
    """Forgets, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hold(self, digest: str) -> ExperimentState | None:
        """The experiment's state, which cannot change before the transaction ends; ``None`` if it is gone."""
        blocks = select(BlockRow.id).where(BlockRow.experiment_id == digest).order_by(BlockRow.id)
        await self._session.execute(blocks.with_for_update())  # blocks first, as everybody
        query = select(ExperimentRow.state).where(ExperimentRow.digest == digest).with_for_update()
        return await self._session.scalar(query)

    async def artifacts_of(self, digest: str) -> set[str]:
        """The digests of all files that the experiment's sessions and runs refer to, of whatever attempt."""
        sessions = select(SessionRow.id).join(BlockRow).where(BlockRow.experiment_id == digest)
        runs = select(RunRow.id).where(RunRow.session_id.in_(sessions))
        query = union(
            select(ArtifactRow.sha256).where(ArtifactRow.session_id.in_(sessions)),
            select(ArtifactRow.sha256).where(ArtifactRow.run_id.in_(runs)),
        )
        return set((await self._session.execute(query)).scalars())

    async def remove(self, digest: str) -> None:
        """The experiment's rows; blocks, sessions, runs, references to files and reports go with it."""
        await self._session.execute(delete(ExperimentRow).where(ExperimentRow.digest == digest))

    async def drop_if_gone(self, digest: str) -> None:
        """Its partitions, unless it was registered anew. Raises ``OperationalError`` behind a long reader."""
        await hold_partitions(self._session, digest)
        still = await self._session.scalar(select(ExperimentRow.digest).where(ExperimentRow.digest == digest))
        if still is None:
            await drop_partitions(self._session, digest)

    async def leftovers(self) -> set[str]:
        """The first digits of experiments that are gone while their partitions are not."""
        known = {digest[:DIGITS] for digest in await self._session.scalars(select(ExperimentRow.digest))}
        return await partition_stems(self._session) - known

    async def drop_leftovers(self, stem: str) -> None:
        """As ``drop_if_gone``, by the first digits of what is no experiment."""
        await hold_partitions(self._session, stem)
        if stem in await self.leftovers():
            await drop_partitions(self._session, stem)

    async def referred(self, digests: Collection[str]) -> set[str]:
        """Those of the files that some row refers to."""
        query = select(ArtifactRow.sha256).where(ArtifactRow.sha256.in_(digests)).distinct()
        return set(await self._session.scalars(query))
