"""The looks of an experiment that may stop early: taken when a block has ended, by whoever ended it.

Whether to stop is the analysis' own answer to the evidence; here it is only asked, and what is still queued is ended.
"""

import asyncio

import structlog

from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.judged import stopping_look
from app.domain.vocabulary import FailureClass
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import ClaimedBlock, LeaseRepository
from app.settings import Settings

log = structlog.get_logger()


async def look_after(settings: Settings, database: Database, block: ClaimedBlock) -> None:
    """Take the look that may be due after a block that has ended well; what goes wrong is noted, and never raised."""
    try:
        await _take_look(database, block)
    except Exception as error:  # a boundary of its own: the block is complete, whatever becomes of a look
        log.exception("look failed")
        message = (
            f"the block is complete, but the look after it could not be taken ({type(error).__name__}: {error}); "
            "the experiment goes on to its next look, or to its end"
        )
        await _note(settings, database, block, Failure(failure_class=FailureClass.LOOK, message=message))


async def _take_look(database: Database, block: ClaimedBlock) -> None:
    """Stop the experiment if a look that the block may have completed settles every word."""
    if not any(block.index < look for look in block.manifest.looks or ()):
        return
    async with database.reader() as session:
        evidence = await EvidenceRepository(session).load_evidence(block.experiment_id)
    found = await asyncio.to_thread(stopping_look, evidence)
    if found is None:
        return
    log.info("stopped at a look", blocks=found.blocks, of=found.of, words=found.words)
    async with database.transaction() as session:
        await ExperimentRepository(session).stop_early(block.experiment_id, found.sentence)


async def _note(settings: Settings, database: Database, block: ClaimedBlock, failure: Failure) -> None:
    try:
        await database.persist(
            lambda session: LeaseRepository(session).note(block.id, block.fence, failure),
            patience_s=settings.self_fence_s,
        )
    except Exception:  # its log has it; the worker must go on to the next block
        log.exception("the failed look could not be noted")
