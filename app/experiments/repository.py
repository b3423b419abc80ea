"""Experiments in Postgres: registered once, found by a prefix of their digest, canceled block by block."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.accelerators.repository import AcceleratorRepository
from app.db.models import BlockRow, CapabilityRow, ExperimentRow, ReportRow, RunRow, SessionRow
from app.db.partitions import create_partitions
from app.db.repository import failure_document, settle, shown, touch
from app.domain.errors import NotFound
from app.domain.evidence import Failure
from app.domain.lifecycle import EXPERIMENT_MOVES, BlockState, ExperimentState, is_terminal
from app.domain.manifest import Manifest
from app.domain.schedule import plan
from app.domain.vocabulary import FailureClass
from app.experiments.glance import known_words
from app.experiments.progress import BlockFact, Facts, RunFact, SessionFact, wanted
from app.experiments.schemas import OWNER, PRIORITY
from app.experiments.waiting import Supply, why_waiting


class ExperimentRepository:
    """Registers, finds and cancels, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, manifest: Manifest, owner: str = OWNER, priority: int = PRIORITY) -> bool:
        """Register the manifest with a queued block for each planned one; ``False`` if it is known already.

        A known one keeps the owner and priority that it was registered with.
        """
        row = {
            "digest": manifest.digest,
            "name": manifest.name,
            "state": ExperimentState.QUEUED,
            "manifest": manifest.model_dump(mode="json"),
            "owner": owner,
            "priority": priority,
        }
        added = insert(ExperimentRow).values(row).on_conflict_do_nothing().returning(ExperimentRow.digest)
        if await self._session.scalar(added) is None:
            return False
        await create_partitions(self._session, manifest.digest)
        self._session.add_all(_queued(manifest, block.index) for block in plan(manifest))
        await self._session.flush()
        return True

    async def version(self, digest: str) -> int:
        """The experiment's version; raises ``NotFound``."""
        version = await self._session.scalar(select(ExperimentRow.version).where(ExperimentRow.digest == digest))
        if version is None:
            raise NotFound.of("experiment", f"{digest} names no experiment", "list the experiments")
        return version

    async def facts(self, digest: str) -> Facts:
        """All facts of one experiment; raises ``NotFound``."""
        found = await self._facts(select(ExperimentRow).where(ExperimentRow.digest == digest))
        if not found:
            raise NotFound.of("experiment", f"{digest} names no experiment", "list the experiments")
        return found[0]

    async def listed(self, digests: Sequence[str]) -> list[Facts]:
        """The facts of these experiments, in their order; each must be there."""
        found = await self._facts(select(ExperimentRow).where(ExperimentRow.digest.in_(digests)))
        return sorted(found, key=lambda facts: digests.index(facts.digest))

    async def shelve(self, digest: str, tags: Sequence[str] | None, archived: bool | None) -> None:  # noqa: FBT001
        """Set what is given; pages that follow the experiment hear of a change."""
        asked = {"tags": None if tags is None else list(tags), "archived": archived}
        wanted = {name: value for name, value in asked.items() if value is not None}
        other = [getattr(ExperimentRow, name) != value for name, value in wanted.items()]
        if not other:
            return
        changed = update(ExperimentRow).where(ExperimentRow.digest == digest, or_(*other)).values(**wanted)
        if await self._session.scalar(changed.returning(ExperimentRow.digest)) is not None:
            await touch(self._session, digest)

    async def cancel(self, digest: str) -> None:
        """Cancel queued blocks now and ask the holders of leased ones; nothing happens once it is over."""
        of_it = BlockRow.experiment_id == digest
        # Blocks before the experiment: every writer takes locks in this order.
        await self._session.execute(select(BlockRow.id).where(of_it).order_by(BlockRow.id).with_for_update())
        state = await self._session.scalar(select(ExperimentRow.state).where(ExperimentRow.digest == digest))
        if state is None or is_terminal(EXPERIMENT_MOVES, state):
            return
        await self._session.execute(
            update(BlockRow)
            .where(of_it, BlockRow.state == BlockState.QUEUED)
            .values(state=BlockState.CANCELED, finished_at=func.now())
        )
        await self._session.execute(
            update(BlockRow).where(of_it, BlockRow.state == BlockState.LEASED).values(cancel_requested=True)
        )
        await settle(self._session, digest)

    async def stop_early(self, digest: str, why: str) -> None:
        """End what is still queued as not needed; what is leased goes on and is kept, though no word rests on it."""
        of_it = BlockRow.experiment_id == digest
        await self._session.execute(select(BlockRow.id).where(of_it).order_by(BlockRow.id).with_for_update())
        reason = Failure(failure_class=FailureClass.NOT_NEEDED, message=why)
        await self._session.execute(
            update(BlockRow)
            .where(of_it, BlockRow.state == BlockState.QUEUED)
            .values(state=BlockState.CANCELED, failure=failure_document(reason), finished_at=func.now())
        )
        await settle(self._session, digest)

    async def supply(self) -> Supply:
        """What hosts have published, by the database's clock."""
        now = (await self._session.scalars(select(func.now()))).one()
        reasons = select(CapabilityRow.worker, CapabilityRow.idle_because).where(
            CapabilityRow.idle_because.is_not(None)
        )
        idle = {host: str(reason) for host, reason in (await self._session.execute(reasons)).all()}
        return Supply(now, await AcceleratorRepository(self._session).every(), idle)

    async def _facts(self, query: Select[ExperimentRow]) -> list[Facts]:
        rows = (await self._session.scalars(query)).all()
        facts = {row.digest: _facts_of(row) for row in rows}
        await self._add_blocks(facts)
        await self._add_sessions(facts)
        await self._add_runs(facts)
        return await self._with_waits(await self._with_words(list(facts.values())))

    async def _with_words(self, found: list[Facts]) -> list[Facts]:
        """The verdicts of those that are over, where they are known."""
        over = {facts.digest: facts for facts in found if is_terminal(EXPERIMENT_MOVES, facts.state)}
        query = select(ReportRow.experiment, ReportRow.glance).where(ReportRow.experiment.in_(over))
        glances = {digest: glance for digest, glance in (await self._session.execute(query)).all() if glance}
        words = {digest: known_words(glance, over[digest].committed) for digest, glance in glances.items()}
        return [replace(facts, verdicts=words.get(facts.digest)) for facts in found]

    async def _with_waits(self, found: list[Facts]) -> list[Facts]:
        waiting = {facts.digest: needs for facts in found if (needs := wanted(facts)) is not None}
        if not waiting:
            return found
        supply = await self.supply()
        why = {digest: why_waiting(needs, supply) for digest, needs in waiting.items()}
        return [replace(facts, waits_because=why.get(facts.digest)) for facts in found]

    async def _add_blocks(self, facts: dict[str, Facts]) -> None:
        query = select(BlockRow).where(BlockRow.experiment_id.in_(facts)).order_by(BlockRow.index)
        for row in await self._session.scalars(query):
            fact = BlockFact(row.index, row.state, _failure(row.failure), row.cancel_requested, row.not_before)
            facts[row.experiment_id].blocks.append(fact)

    async def _add_sessions(self, facts: dict[str, Facts]) -> None:
        until = func.coalesce(SessionRow.finished_at, func.clock_timestamp())
        query = (
            select(
                SessionRow, BlockRow.experiment_id, BlockRow.index, func.extract("epoch", until - SessionRow.started_at)
            )
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .where(BlockRow.experiment_id.in_(facts), SessionRow.diagnosing.is_(False), shown())
            .order_by(BlockRow.index, SessionRow.position)
        )
        for row, digest, block, wall_s in (await self._session.execute(query)).all():
            fact = SessionFact(block, row.arm, row.state, _failure(row.failure), float(wall_s))
            facts[digest].sessions.append(fact)

    async def _add_runs(self, facts: dict[str, Facts]) -> None:
        query = (
            select(RunRow, SessionRow.arm, BlockRow.experiment_id, BlockRow.index)
            .join(SessionRow, SessionRow.id == RunRow.session_id)
            .join(BlockRow, BlockRow.id == SessionRow.block_id)
            .where(BlockRow.experiment_id.in_(facts), shown())
            .order_by(BlockRow.index, SessionRow.position, RunRow.started_at)
        )
        for row, arm, digest, block in (await self._session.execute(query)).all():
            fact = RunFact(block, arm, row.workload, row.load, row.state, _failure(row.failure))
            facts[digest].runs.append(fact)


def _queued(manifest: Manifest, index: int) -> BlockRow:
    return BlockRow(
        experiment_id=manifest.digest,
        index=index,
        state=BlockState.QUEUED,
        accelerator=manifest.hardware.accelerator,
        accelerator_count=manifest.accelerators_needed,
    )


def _facts_of(row: ExperimentRow) -> Facts:
    return Facts(
        manifest=Manifest.model_validate(row.manifest),
        digest=row.digest,
        state=row.state,
        version=row.version,
        created_at=row.created_at,
        finished_at=row.finished_at,
        owner=row.owner,
        priority=row.priority,
        tags=row.tags,
        archived=row.archived,
    )


def _failure(document: object) -> Failure | None:
    return None if document is None else Failure.model_validate(document)
