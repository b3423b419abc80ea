"""How an arm's servers started, and what it costs beside time: start-up and KV cache."""

from pydantic import BaseModel, ConfigDict

from app.domain.burden import KV_CACHE_TOKENS
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.pairing import CompleteBlocks
from app.domain.startup import StartupWarning
from app.domain.statistics import Estimate, mean_over_blocks
from app.domain.vocabulary import BASELINE_ARM, NS_PER_S


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionSummary(_Frozen):
    """How one server started; cold-start numbers stay apart from measured ones."""

    block: int
    arm: str
    position: int
    state: str
    startup_s: float | None
    failure_class: str | None
    failure: str | None
    log_sha256: str | None
    memory: dict[str, str]
    warnings: tuple[StartupWarning, ...] = ()
    flags_left_out: dict[str, str] = {}
    """Flag that the runtime does not know → what is therefore not there."""
    config_source: str | None = None


class DraftCost(_Frozen):
    """What the arm costs beside time (spec M5, first form)."""

    arm: str
    startup_s: Estimate
    baseline_startup_s: Estimate
    kv_cache_tokens: str | None
    baseline_kv_cache_tokens: str | None


def session_summary(session: SessionEvidence) -> SessionSummary:
    """What the report says of one server."""
    return SessionSummary(
        block=session.block,
        arm=session.arm,
        position=session.position,
        state=str(session.state),
        startup_s=None if session.startup_ns is None else session.startup_ns / NS_PER_S,
        failure_class=str(session.failure.failure_class) if session.failure else None,
        failure=session.failure.message if session.failure else None,
        log_sha256=session.log_sha256,
        memory=session.memory,
        warnings=session.warnings,
        flags_left_out=session.flags_left_out,
        config_source=None if session.config_source is None else str(session.config_source),
    )


def draft_cost(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> DraftCost:
    """Over the servers of complete blocks, target-only's beside them."""

    def sessions(name: str) -> list[SessionEvidence]:
        return [s for s in evidence.sessions if s.arm == name and s.block in blocks.indices]

    def startup(name: str) -> Estimate:
        return mean_over_blocks([s.startup_ns / NS_PER_S for s in sessions(name) if s.startup_ns is not None], "s")

    return DraftCost(
        arm=arm,
        startup_s=startup(arm),
        baseline_startup_s=startup(BASELINE_ARM),
        kv_cache_tokens=_kv_cache_tokens(sessions(arm)),
        baseline_kv_cache_tokens=_kv_cache_tokens(sessions(BASELINE_ARM)),
    )


def _kv_cache_tokens(sessions: list[SessionEvidence]) -> str | None:
    """As the engine printed it; several values where its sessions differed."""
    stated = [session.memory[KV_CACHE_TOKENS] for session in sessions if KV_CACHE_TOKENS in session.memory]
    return " / ".join(dict.fromkeys(stated)) or None
