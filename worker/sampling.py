"""The end of a block that samples: one more target-only server scores what all its arms said.

One server for all of them, so that no arm's numerics decide about its own answers. It measures nothing.
"""

import structlog

from app.domain.verified import VERIFIED_BLOCKS
from app.domain.vocabulary import BASELINE_ARM
from app.verification.repository import VerificationRepository
from worker.bench import Bench, RunFailed
from worker.measurement import Serving, cause_of_end
from worker.session import conduct_diagnosis
from worker.verification.choosing import choose
from worker.verification.phase import asker_of, watched
from worker.verification.sampled import Said, Scorer, said_by, sampled_prompts

log = structlog.get_logger()


async def score_block(bench: Bench) -> None:
    """Start no server where nothing was sampled."""
    if bench.manifest.sampling.temperature <= 0 or bench.block_index >= VERIFIED_BLOCKS:
        return
    said = await _said(bench)
    if not said:
        return
    log.info("sampled answers are scored", answers=len(said))

    async def work(serving: Serving) -> None:
        await _score(bench, serving, said)

    await conduct_diagnosis(bench, BASELINE_ARM, 2 * len(bench.manifest.arms), work, may_tell_logits=False)


async def _said(bench: Bench) -> list[Said]:
    async with bench.recorder.database.transaction() as session:
        sessions = await VerificationRepository(session).sessions(bench.recorder.block.id)
    return said_by((one.arm, one.verification) for one in sessions)


async def _score(bench: Bench, serving: Serving, said: list[Said]) -> None:
    seed = bench.manifest.schedule_seed
    prompts, _ = sampled_prompts(choose(bench.traces, seed).prompts, seed)
    record = await watched(bench, serving, Scorer(asker_of(bench, serving)).score(prompts, said))
    await bench.recorder.record_verification(serving.session_id, record)
    if dead := cause_of_end(serving.server):
        raise RunFailed(dead)
