"""Forget an experiment: its rows in one transaction, then its partitions, then files that nothing else refers to.

Cut off in between, it leaves what nothing can reach; the next sweep takes it away.
"""

import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import structlog
from anyio import to_thread
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from app.access.audit.repository import record
from app.artifacts.store import ArtifactStore
from app.db.repository import resolve
from app.db.session import Database
from app.domain.errors import IllegalTransition, NotFound
from app.domain.lifecycle import EXPERIMENT_MOVES, is_terminal
from app.retention.repository import RetentionRepository
from app.retention.schemas import DeletedRead, SweptRead
from app.settings import Settings

GRACE_S: Final = 300.0
"""A file this young may have been stored a moment ago, by a worker that is about to refer to it."""
SCRATCH_S: Final = 86_400.0
TRIES: Final = 10
FILES_AT_ONCE: Final = 1000

log = structlog.stdlib.get_logger()


class RetentionService:
    """One per request; it holds no state of its own."""

    def __init__(self, database: Database, settings: Settings, *, grace_s: float = GRACE_S) -> None:
        self._database = database
        self._settings = settings
        self._grace_s = grace_s

    async def delete(self, reference: str) -> DeletedRead:
        """Forget a finished experiment with everything of it. Raises ``NotFound`` or ``IllegalTransition``."""
        async with self._database.transaction() as session:
            digest = await resolve(session, reference)
            repository = RetentionRepository(session)
            await self._require_over(repository, digest)
            artifacts = await repository.artifacts_of(digest)
            await repository.remove(digest)
            await record(session, "experiment.delete", digest)
        dropped = await self._tried(lambda repository: repository.drop_if_gone(digest))
        removed, freed = await self._remove(artifacts)
        log.info("experiment deleted", experiment=digest, artifacts=removed, bytes=freed, dropped=dropped)
        return DeletedRead(id=digest, artifacts_removed=removed, bytes_freed=freed, left_for_sweep=not dropped)

    async def sweep(self) -> SweptRead:
        """Remove partitions, files and scratch directories that nothing refers to."""
        async with self._database.reader() as session:
            stems = await RetentionRepository(session).leftovers()
        dropped = 0
        for stem in sorted(stems):
            dropped += await self._tried(lambda repository, stem=stem: repository.drop_leftovers(stem))
        stored = await to_thread.run_sync(lambda: [*self._store().digests(older_than_s=self._grace_s)])
        removed, freed = await self._remove(stored)
        scratch = await to_thread.run_sync(self._remove_scratch)
        return SweptRead(
            experiments_dropped=dropped, artifacts_removed=removed, bytes_freed=freed, scratch_removed=scratch
        )

    @staticmethod
    async def _require_over(repository: RetentionRepository, digest: str) -> None:
        state = await repository.hold(digest)
        if state is None:
            raise NotFound.of("experiment", f"{digest} names no experiment", "it may have been deleted just now")
        if not is_terminal(EXPERIMENT_MOVES, state):
            remedy = "cancel it and wait until it has ended; evidence of a running experiment is never deleted"
            raise IllegalTransition.of("experiment", f"it is {state}", remedy)

    async def _tried(self, work: Callable[[RetentionRepository], Awaitable[None]]) -> bool:
        """Whether it was done: behind a long reader it is tried a few times, so that nobody else has to wait."""
        for _ in range(TRIES):
            try:
                async with self._database.transaction() as session:
                    await work(_repository(session))
            except OperationalError:
                continue
            return True
        return False

    async def _remove(self, digests: Iterable[str]) -> tuple[int, int]:
        """Those that no row refers to and that are not young: how many, and their bytes."""
        removed = freed = 0
        for portion in _portions(digests):
            async with self._database.reader() as session:
                lost = set(portion) - await RetentionRepository(session).referred(portion)
            sizes = await to_thread.run_sync(self._remove_files, sorted(lost))
            removed, freed = removed + len(sizes), freed + sum(sizes)
        return removed, freed

    def _remove_files(self, digests: list[str]) -> list[int]:
        store = self._store()
        return [store.remove(sha256) for sha256 in digests if store.age_s(sha256) >= self._grace_s]

    def _remove_scratch(self) -> int:
        """What a process that was killed while it packed a bundle has left."""
        old = [
            path
            for path in self._settings.home.glob("scratch-*")
            if time.time() - path.stat().st_mtime > max(self._grace_s, SCRATCH_S)
        ]
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        return len(old)

    def _store(self) -> ArtifactStore:
        return ArtifactStore(self._settings.artifacts)


def _repository(session: AsyncSession) -> RetentionRepository:
    return RetentionRepository(session)


def _portions(digests: Iterable[str]) -> Iterator[list[str]]:
    left = iter(digests)
    while portion := [*islice(left, FILES_AT_ONCE)]:
        yield portion
