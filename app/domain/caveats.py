"""What an experiment does not show, in words: for the reader who would otherwise take it for shown."""

from collections.abc import Iterator

from app.domain.correctness import MISMATCHES_LISTED, SAMPLED
from app.domain.engine_version import floor_reason, version_of_runtime
from app.domain.evidence import ExperimentEvidence
from app.domain.finding import BLOCKS_FOR_DECISION
from app.domain.manifest import Manifest
from app.domain.pairing import CompleteBlocks
from app.domain.startup_gates import unchecked_canaries
from app.domain.vocabulary import Purpose, Saturation


def not_shown(
    evidence: ExperimentEvidence, blocks: CompleteBlocks, mismatches: int, saturation: set[Saturation]
) -> tuple[str, ...]:
    """In the order of how much they matter."""
    manifest = evidence.manifest
    said = [
        "strata are exploratory: their intervals are not adjusted for how many there are",
        "throughput at a stable open-loop load is set by the arrivals, not by the arm; read it only under saturation",
    ]
    if mismatches > MISMATCHES_LISTED:
        said.append(f"{mismatches - MISMATCHES_LISTED} further mismatches are counted but not listed")
    if manifest.sampling.temperature > 0:
        said.append(SAMPLED)
    if Saturation.UNDECIDED in saturation:
        said.append("some runs are too short, below 50 service times, to tell whether their queue grew")
    if manifest.blocks < BLOCKS_FOR_DECISION:
        said.append(f"{manifest.blocks} blocks: exploratory, no decision")
    if manifest.hardware.accelerator.lower().startswith("cpu") or manifest.software.cuda == "none":
        said.append("measured without a GPU: nothing here carries over to one")
    return (*said, *_asked_for(manifest), *_several_machines(evidence, blocks), *_untold_by_engine(evidence, blocks))


def _asked_for(manifest: Manifest) -> Iterator[str]:
    """What the manifest itself accepts, and what that costs the reader."""
    if manifest.purpose is Purpose.OVERHEAD_PROFILING:
        yield "lossy acceptance was measured for its cost: nothing is claimed about outputs"
    if outside := [arm.name for arm in manifest.candidates if arm not in manifest.decided]:
        yield f"{', '.join(outside)}: outside the declared family, exploratory"
    if manifest.engine_below_floor is not None:
        known = floor_reason(version_of_runtime(manifest.runtime)) or "the engine is not below the security floor"
        yield f"{known}; accepted because: {manifest.engine_below_floor}"


def _several_machines(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[str]:
    """Arms of a block always share theirs; blocks may not, and then their spread is also that of the machines."""
    where: dict[str, set[int]] = {}
    for session in evidence.sessions:
        if session.block in blocks.indices and session.accelerators:
            where.setdefault(" and ".join(session.accelerators), set()).add(session.block + 1)
    if len(where) > 1:
        named = "; ".join(f"{place}: {', '.join(map(str, sorted(found)))}" for place, found in where.items())
        yield f"blocks were measured on {len(where)} different accelerators of the pinned kind ({named})"


def _untold_by_engine(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[str]:
    """What this engine's version cannot tell, and what an earlier worker did not look at."""
    for flag, lost in dict.fromkeys(item for s in evidence.sessions for item in s.flags_left_out.items()):
        yield f"{lost} (this engine lacks {flag})"
    if unseen := unchecked_canaries(evidence, blocks):
        yield f"{unseen} servers were recorded without a look at their counters after the canary"
