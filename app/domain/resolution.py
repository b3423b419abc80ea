"""Resolved configurations side by side: what may differ between the arms of a block, and what does (method D4).

vLLM changes more than speculation when speculation is switched on; only its unavoidable consequences are allowed.
"""

from collections.abc import Iterator, Mapping

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.lifecycle import SessionState
from app.domain.pairing import CompleteBlocks
from app.domain.startup import ConfigSource
from app.domain.vocabulary import BASELINE_ARM

ALLOWED_SECTIONS = frozenset({"speculative_config"})
ALLOWED_FIELDS = frozenset(
    {
        # consequences of speculation (method D4)
        "per_request_spec_decode_metrics",
        "num_lookahead_tokens",
        "num_lookahead_slots",
        "max_num_scheduled_tokens",
        "num_gpu_blocks",
        "num_cpu_blocks",
        "kv_cache_size_tokens",
        "kv_cache_max_concurrency",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "compile_ranges_endpoints",
        # different in every process, whatever the arm
        "instance_id",
        "uds",
        "port",
        "local_cache_dir",
        "cache_dir",
        "VLLM_CACHE_ROOT",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
        "VLLM_RPC_BASE_PATH",
    }
)

ConfigDifferences = dict[str, tuple[str | None, str | None]]
"""Resolved field → (target-only's value, the arm's)."""


def config_differences(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> dict[str, ConfigDifferences]:
    """Arm → fields resolved otherwise than in target-only in any block, outside the allowed set."""
    found: dict[str, ConfigDifferences] = {}
    for target, session in _pairs(evidence, blocks):
        if target.resolved_config and session.resolved_config and _source(target) is _source(session):
            differing = differences(target.resolved_config, session.resolved_config)
            found.setdefault(session.arm, {}).update(differing)
    return {arm: fields for arm, fields in found.items() if fields}


def differences(target: Mapping[str, str], arm: Mapping[str, str]) -> ConfigDifferences:
    """The fields of two configurations from one source that differ and may not."""
    return {
        field: (target.get(field), arm.get(field))
        for field in sorted(target.keys() | arm.keys())
        if target.get(field) != arm.get(field) and not _may_differ(field)
    }


def unlike_configurations(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> Iterator[str]:
    """Why the configurations of ``arm`` and target-only are not the same but for speculation, or cannot be compared."""
    for session in sorted(evidence.sessions, key=lambda s: (s.block, s.arm)):
        counts = session.block in blocks.indices and session.arm in {arm, BASELINE_ARM}
        if counts and session.state is SessionState.SUCCEEDED and not session.resolved_config:
            yield f"block {session.block + 1}: the resolved configuration of {session.arm} was not recorded"
    for target, session in _pairs(evidence, blocks):
        if session.arm == arm and target.resolved_config and session.resolved_config:
            yield from _unlike_sources(target, session)
    if any(one.as_deployed for one in evidence.manifest.arms if one.name == arm):
        return  # what the engine chose there is shown, and is what that arm is for
    for field, (theirs, ours) in sorted(config_differences(evidence, blocks).get(arm, {}).items()):
        yield f"resolved configuration differs in {field}: target-only {theirs}, {arm} {ours}"


def _pairs(evidence: ExperimentEvidence, blocks: CompleteBlocks) -> Iterator[tuple[SessionEvidence, SessionEvidence]]:
    """Target-only's session beside each other arm's of the same block, in order."""
    sessions = sorted((s for s in evidence.sessions if s.block in blocks.indices), key=lambda s: (s.block, s.arm))
    targets = [s for s in sessions if s.arm == BASELINE_ARM]
    for session in sessions:
        if session.arm != BASELINE_ARM:  # an interrupted arm has two sessions in a block
            yield from ((target, session) for target in targets if target.block == session.block)


def _unlike_sources(target: SessionEvidence, session: SessionEvidence) -> Iterator[str]:
    theirs, ours = _source(target), _source(session)
    if theirs is not ours and session.state is SessionState.SUCCEEDED:
        yield (
            f"block {session.block + 1}: the configuration of target-only was read from {theirs}, that of "
            f"{session.arm} from {ours}, which name settings differently"
        )


def _source(session: SessionEvidence) -> ConfigSource:
    """Sessions recorded before the source was noted were all asked over HTTP."""
    return session.config_source or ConfigSource.SERVER_INFO


def _may_differ(field: str) -> bool:
    parts = field.split(".")
    return parts[-1] in ALLOWED_FIELDS or not ALLOWED_SECTIONS.isdisjoint(parts)
