"""Each arm's memory in one table: the breakdown of its servers at their peak, and what its draft takes from the cache.

One server's rows are shown, the first complete block's; how far the others differ is said beside it.
"""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.memory import MemoryBreakdown
from app.domain.memory_breakdown import split_weights
from app.domain.memory_peak import at_peak
from app.domain.pairing import CompleteBlocks
from app.domain.vocabulary import BASELINE_ARM


class ArmMemory(BaseModel):
    """``spread_bytes`` is the largest total less the smallest over the arm's servers; ``None`` for one server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    block: int
    breakdown: MemoryBreakdown
    servers: int
    spread_bytes: int | None
    kv_cache_tokens_lost: int | None
    """Fewer tokens than target-only's cache of the same block holds; negative where it holds more."""


def arm_memory(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> tuple[ArmMemory, ...]:
    """Every arm whose servers' memory was recorded, in the manifest's order."""
    known = ((arm.name, _known(evidence, blocks, arm.name)) for arm in evidence.manifest.arms)
    return tuple(_of_arm(evidence, blocks, arm, sessions) for arm, sessions in known if sessions)


def _of_arm(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str, sessions: list[SessionEvidence]
) -> ArmMemory:
    peaks = [_at_peak(evidence, session) for session in sessions]
    first, found = sessions[0], peaks[0]
    target = next(_of_block(evidence, blocks, BASELINE_ARM, first.block), None)
    totals = [peak.total_bytes for peak in peaks if peak.total_bytes is not None]
    return ArmMemory(
        arm=arm,
        block=first.block,
        breakdown=split_weights(found, target.memory_breakdown) if target and target.memory_breakdown else found,
        servers=len(sessions),
        spread_bytes=max(totals) - min(totals) if len(totals) > 1 else None,
        kv_cache_tokens_lost=_lost(target, found),
    )


def _known(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> list[SessionEvidence]:
    return [s for block in blocks.indices for s in _of_block(evidence, blocks, arm, block)]


def _of_block(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str, block: int) -> Iterator[SessionEvidence]:
    for session in evidence.sessions:
        here = session.arm == arm and session.block == block and block in blocks.indices
        if here and session.memory_breakdown is not None:
            yield session


def _at_peak(evidence: ExperimentEvidence, session: SessionEvidence) -> MemoryBreakdown:
    runs = [r for r in evidence.runs if (r.block, r.arm) == (session.block, session.arm)]
    made = session.memory_breakdown
    if made is None:
        raise ValueError("a session without a breakdown has no peak")
    return at_peak(made, [s for run in runs for s in run.series])


def _lost(target: SessionEvidence | None, found: MemoryBreakdown) -> int | None:
    theirs = target.memory_breakdown.kv_cache_tokens if target and target.memory_breakdown else None
    return None if theirs is None or found.kv_cache_tokens is None else theirs - found.kv_cache_tokens
