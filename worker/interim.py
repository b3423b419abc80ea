"""The looks of an experiment that may stop early: taken when a block has ended, by whoever ended it.

Whether to stop is the analysis' own answer to the evidence; here it is only asked, and what is still queued is ended.
"""

import asyncio

import structlog

from app.db.session import Database
from app.domain.judged import stopping_look
from app.domain.manifest import Manifest
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository

log = structlog.get_logger()


async def take_look(database: Database, experiment_id: str, manifest: Manifest, block: int) -> None:
    """After that block: stop the experiment if a look that it may have completed settles every word."""
    if not any(block < look for look in manifest.looks or ()):
        return
    async with database.reader() as session:
        evidence = await EvidenceRepository(session).load_evidence(experiment_id)
    found = await asyncio.to_thread(stopping_look, evidence)
    if found is None:
        return
    log.info("stopped at a look", blocks=found.blocks, of=found.of, words=found.words)
    async with database.transaction() as session:
        await ExperimentRepository(session).stop_early(experiment_id, found.sentence)
