"""Whether each server started as its arm asked: warnings, the method it resolved, its drafts on the canary.

A comparison rests on servers that did what the manifest says; each broken rule names the blocks and what was found.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.manifest import Arm, Manifest
from app.domain.pairing import CompleteBlocks
from app.domain.startup import StartupWarning, WarningEffect
from app.domain.vocabulary import BASELINE_ARM, Method, Purpose

LOSSY_VERIFICATION = "lossy_verification"
"""The engine adapter's name of the warning that an experiment about overhead asks for."""

DRAFTS_AT_EVERY_STEP = frozenset(
    {
        Method.DRAFT_MODEL,
        Method.EAGLE,
        Method.EAGLE3,
        Method.MTP,
        Method.DFLASH,
        Method.DSPARK,
        Method.MEDUSA,
        Method.MLP_SPECULATOR,
    }
)
"""Their model always proposes something; a lookup (ngram, suffix) may find nothing on the canary."""

SPECULATIVE_SECTION = "speculative_config"
_METHOD = f"{SPECULATIVE_SECTION}.method"
_TOKENS = (f"{SPECULATIVE_SECTION}.num_speculative_tokens", f"{SPECULATIVE_SECTION}.num_spec_tokens")
"""The server's document and the log's line each have their own name for k."""
_ABSENT = frozenset({"", "null", "None"})


def startup_problems(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm_name: str) -> Iterator[str]:
    """What the servers of target-only and of ``arm_name`` did otherwise than asked; one line for equal findings."""
    where: dict[str, list[int]] = defaultdict(list)
    arms = {arm.name: arm for arm in evidence.manifest.arms if arm.name in {BASELINE_ARM, arm_name}}
    for session in sorted(evidence.sessions, key=lambda s: (s.block, s.position)):
        if session.block in blocks.indices and session.arm in arms:
            for words in session_problems(evidence.manifest, arms[session.arm], session):
                where[words].append(session.block + 1)
    for words, found in where.items():
        yield f"{_named(found)}: {words}"


def session_problems(manifest: Manifest, arm: Arm, session: SessionEvidence) -> Iterator[str]:
    """What one server did otherwise than its arm asked; a server that never became ready has its failure instead."""
    if session.startup_ns is None:
        return
    for warning in session.warnings:
        if _fails(manifest, warning):
            yield f"{arm.name} warned ({warning.name}), which fails preflight: {warning.line}"
    if session.resolved_config:
        yield from _resolution_problems(arm, session.resolved_config)
    yield from _canary_problems(arm, session)


def unchecked_canaries(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> int:
    """Servers of complete blocks that became ready and whose counters after the canary nobody recorded."""
    return sum(s.block in blocks.indices and s.startup_ns is not None and s.canary is None for s in evidence.sessions)


def without_request_counts(evidence: ExperimentEvidence) -> frozenset[tuple[int, str]]:
    """(block, arm) of the servers whose responses carry no speculation counts of their own."""
    return frozenset((s.block, s.arm) for s in evidence.sessions if not s.counts_per_request)


def _fails(manifest: Manifest, warning: StartupWarning) -> bool:
    asked_for = warning.name == LOSSY_VERIFICATION and manifest.purpose is Purpose.OVERHEAD_PROFILING
    return warning.effect is WarningEffect.FAILS_PREFLIGHT and not asked_for


def _resolution_problems(arm: Arm, resolved: Mapping[str, str]) -> Iterator[str]:
    method = resolved.get(_METHOD)
    if not arm.speculates:
        if method is not None or resolved.get(SPECULATIVE_SECTION, "") not in _ABSENT:
            yield f"target-only resolved speculation by itself: {method or resolved[SPECULATIVE_SECTION]}"
        return
    asked, k = arm.speculation.method, arm.speculation.num_speculative_tokens
    if method != asked:
        yield f"{arm.name} resolved method {method or 'none'}, asked for {asked}"
    tokens = next((resolved[key] for key in _TOKENS if key in resolved), "none")
    if tokens != str(k):
        yield f"{arm.name} resolved {tokens} speculative tokens, asked for {k}"


def _canary_problems(arm: Arm, session: SessionEvidence) -> Iterator[str]:
    canary = session.canary
    if canary is None:
        return
    if not arm.speculates:
        if canary.exposes_speculation:
            yield "target-only exposes speculative counters"
    elif not canary.exposes_speculation:
        yield f"{arm.name} exposes no speculative counters after the canary"
    elif _must_draft(arm) and not canary.drafted:
        yield f"{arm.name} drafted nothing on the canary, although {arm.speculation.method} drafts at every step"


def _must_draft(arm: Arm) -> bool:
    """A schedule of k by batch size, or a draft with a shorter reach, may leave single requests undrafted."""
    told = arm.speculation
    narrowed = told.num_speculative_tokens_per_batch_size is not None or told.max_model_len is not None
    return told.method in DRAFTS_AT_EVERY_STEP and not narrowed


def _named(blocks: list[int]) -> str:
    listed = ", ".join(map(str, blocks))
    return f"block {listed}" if len(blocks) == 1 else f"blocks {listed}"
